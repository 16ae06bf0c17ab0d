"""Containers that share a cache, a table and a queue, and the time that passes for all of them."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from contextvars import Context as Variables
from typing import TYPE_CHECKING, Any

from sekali import Worker, warm
from sekali.durable import Durable
from sekali.outbox import Outbox
from sekali.pulse import Pulse
from sekali.settings import Settings
from sekali.testing import MemoryStore
from tests.worker_world.cache import FaultyClient, Server
from tests.worker_world.faults import Script
from tests.worker_world.queue import DEAD_URL, QUEUE_URL, FaultyQueueClient, Queue
from tests.worker_world.table import FaultyStore

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from redis import Redis

    from sekali import Job
    from sekali.clock import Clock
    from sekali.invocation import Invocation
    from sekali.store_rows import Outcome, Row
    from sekali.telemetry.events import Event
    from tests.worker_world.faults import Fault, Plan, Point

INVOCATION_SECONDS = 30.0
VALUE_TTL_SECONDS = 120.0

Body = "Callable[[Environment, Job], object]"


class Watch:
    """One container's two clocks; the monotonic one stands still while it is frozen."""

    def __init__(self, world: World, *, skew_seconds: float = 0.0) -> None:
        self._world = world
        self._skew_seconds = skew_seconds
        self._frozen_seconds = 0.0

    def wall(self) -> float:
        """Return Unix time as this container sees it."""
        return self._world.now + self._skew_seconds

    def monotonic(self) -> float:
        """Return seconds of running."""
        return self._world.now - self._frozen_seconds

    def freeze(self, seconds: float) -> None:
        """Take back what the monotonic clock did not see."""
        self._frozen_seconds += seconds


class WorldContainer(warm.Container):
    """A container whose pauses are virtual, and whose present invocation can be reached."""

    current: Invocation
    hearts_started = 0

    def invocation(self, *, owner: str, remaining_seconds: float) -> Invocation:
        """Begin an invocation whose waiting lets the world's time pass."""
        made = super().invocation(owner=owner, remaining_seconds=remaining_seconds)
        assert isinstance(self.clock, Watch)
        made.pause = self.clock._world.pass_time  # noqa: SLF001 the world's own parts
        # No thread: whoever wants a beat calls it.
        made.heartbeat.start = self._count_start  # type: ignore[method-assign]
        self.current = made
        return made

    def _count_start(self) -> None:
        self.hearts_started += 1


class HandPulse(Pulse):
    """A pulse without a thread: a test calls what is due."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[float] = []
        self._beats: list[Callable[[], float]] = []

    def add(self, beat: Callable[[], float], *, after_seconds: float) -> None:
        """Keep `beat`, whenever it is due."""
        self.asked.append(after_seconds)
        self._beats.append(beat)

    def remove(self, beat: Callable[[], float]) -> None:
        """Keep it no more."""
        self._beats = [one for one in self._beats if one != beat]

    def beat(self) -> list[float]:
        """Call all that is kept; answer when each wants to be called again."""
        return [one() for one in list(self._beats)]


class LambdaContext:
    """What the worker reads of Lambda's context."""

    aws_request_id = "request"

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._ends = clock.monotonic() + seconds

    def get_remaining_time_in_millis(self) -> int:
        """Return the milliseconds until the function is killed."""
        return max(int((self._ends - self._clock.monotonic()) * 1000), 0)


class Environment:
    """One execution environment: a worker in a container of its own."""

    def __init__(
        self, world: World, name: str, plan: Plan, *, skew_seconds: float, overrides: dict[str, Any]
    ) -> None:
        self.world = world
        self.name = name
        self.plan = plan
        self.stopped = self.killed = False
        self.clock = Watch(world, skew_seconds=skew_seconds)
        self.events: list[Event] = []
        self.crossed: Counter[Point] = Counter()
        self.container = self._new_container(overrides)
        self.worker = Worker(name, hooks=[])
        self.worker.job("compute", key="{payload[n]}", ttl_seconds=VALUE_TTL_SECONDS)(self._body)
        self.worker.job("once")(self._body)

    def _new_container(self, overrides: dict[str, Any]) -> WorldContainer:
        settings: dict[str, Any] = {
            "cache_url": "valkey://nowhere:6379",
            "table_name": "results",
            "queue_url": QUEUE_URL,
            "dead_letter_queue_url": DEAD_URL,
            "partial_batch": True,
            **overrides,
        }

        def stop() -> None:
            self.world.stop(self)

        client = FaultyClient(self.world.server, self.decide, stop)
        made = WorldContainer(
            Settings(**settings), emit=self.events.append, clock=self.clock, connect=lambda: client
        )
        made.uniform = self.world.uniform
        made.flusher = self.flusher = HandPulse()
        queue_client: Any = FaultyQueueClient(self.world.queue, self.decide)
        made.outbox = Outbox(lambda: queue_client)
        if made.durable is not None:
            self.store = FaultyStore(
                self.world.table,
                clock=self.clock,
                decide=self.decide,
                stop=stop,
                accepted=self.world.accepted,
            )
            made.durable = Durable(
                self.store,
                ttl_seconds=settings.get("record_ttl_seconds", 1_296_000.0),
                wall=self.clock.wall,
            )
        return made

    def decide(self, point: Point) -> Fault:
        """Ask the plan what goes wrong now; being stopped is done here."""
        self.crossed[point] += 1
        fault = self.plan.at(point)
        if fault == "stop":
            self.world.stop(self)
            return ""
        return fault

    def invoke(self, *records: Mapping[str, Any], seconds: float = INVOCATION_SECONDS) -> list[str]:
        """Let the worker take one batch and return the messages that come back."""
        context = LambdaContext(self.clock, seconds)
        with warm.inside(self.container):
            # Variables of its own: one environment may be stopped inside another one's call.
            response = Variables().run(self.worker.handler, {"Records": list(records)}, context)
        return [failure["itemIdentifier"] for failure in response["batchItemFailures"]]

    @property
    def flushes(self) -> int:
        """Tell how often this container waited for the shared cache."""
        return self.container.shared.flushes

    def _body(self, job: Job) -> object:
        return self.world.body(self, job)


class World:
    """Everything that containers share."""

    def __init__(self, client: Redis, **overrides: Any) -> None:  # Any: fields of Settings
        self.now = float(int(time.time()))
        self.server = Server(client, now=self.now)
        self.queue = Queue(now=lambda: self.now)
        self.table = MemoryStore(clock=Watch(self))
        self.accepted: list[Outcome] = []
        self.overrides = overrides
        self.uniform: Callable[[float, float], float] = random.uniform
        self.runs: list[str] = []
        self.body: Callable[[Environment, Job], object] = self.square
        self.on_stop: Callable[[Environment], None] = lambda _: None
        self._environments = 0

    def environment(
        self, plan: Plan | None = None, *, skew_seconds: float = 0.0, **overrides: Any
    ) -> Environment:
        """Start a container, cold."""
        self._environments += 1
        return Environment(
            self,
            f"env{self._environments}",
            plan or Script(),
            skew_seconds=skew_seconds,
            overrides={**self.overrides, **overrides},
        )

    def pass_time(self, seconds: float) -> None:
        """Let time pass for every container and on the server."""
        if seconds > 0:
            self.now += seconds
            self.server.age(seconds)

    def stop(self, environment: Environment) -> None:
        """Let others go on while `environment` is stopped."""
        if not environment.stopped:
            environment.stopped = True
            self.on_stop(environment)
            environment.stopped = False

    def send(
        self,
        job_id: str,
        payload: object,
        *,
        name: str = "compute",
        group: str | None = None,
        **fields: object,
    ) -> str:
        """Send one job and return the id of its message."""
        body = json.dumps({"sekali": 1, "id": job_id, "name": name, "payload": payload, **fields})
        return self.queue.send(body, group=group).message_id

    def deliver(
        self,
        environment: Environment,
        *message_ids: str,
        seconds: float = INVOCATION_SECONDS,
    ) -> list[str]:
        """Let `environment` take these messages, and delete what does not come back.

        With no ids, it takes everything that is visible. The ids of what comes back are returned.
        """
        waiting = self.queue.waiting
        chosen = [waiting[one] for one in message_ids] if message_ids else self.queue.visible()
        records = self.queue.receive(chosen)
        returned = environment.invoke(*records, seconds=seconds)
        for record in records:
            if record["messageId"] not in returned:
                self.queue.delete(record["messageId"])
        return returned

    def drain(self, environment: Environment, *, most: int = 50) -> None:
        """Deliver what waits, as it becomes visible, until nothing does."""
        for _ in range(most):
            visible_at = self.queue.next_visible_at()
            if visible_at is None:
                return
            self.pass_time(visible_at - self.now)
            self.deliver(environment)
        raise AssertionError(f"still waiting: {list(self.queue.waiting.values())}")

    def row(self, job_id: str, *, name: str = "compute") -> Row | None:
        """Return what the table holds of an id."""
        return self.table.get_many([(name, job_id)]).get((name, job_id))

    def reasons(self) -> list[str]:
        """Return why each dead letter is one."""
        return [one.attributes["sekali.reason"]["stringValue"] for one in self.queue.dead]

    def redrive(self, chosen: Sequence[int] | None = None) -> list[str]:
        """Move dead letters back as SQS does: body and attributes as they are."""
        moved = [self.queue.dead[at] for at in chosen] if chosen is not None else self.queue.dead
        self.queue.dead = [one for one in self.queue.dead if one not in moved]
        return [self.queue.send(one.body, attributes=one.attributes).message_id for one in moved]

    def square(self, environment: Environment, job: Job) -> object:
        """Compute what a test's job computes unless it says otherwise."""
        del environment
        self.runs.append(job.id)
        return job.payload["n"] ** 2
