"""Let containers take batches in a random but repeatable order, with faults at every boundary.

A stopped container is an invocation inside which others run: whatever may happen between two lines
of its code happens there, as often as the seed says.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from sekali import PermanentError
from sekali.claims import Claims
from sekali.invalidation import Entry, Log, new_mark
from sekali.keys import Keyspace
from tests.worker_world.faults import Killed
from tests.worker_world.ledger import Broken, Ledger
from tests.worker_world.plans import Chance
from tests.worker_world.world import INVOCATION_SECONDS, World

if TYPE_CHECKING:
    from collections.abc import Callable

    from redis import Redis

    from sekali import Job
    from tests.worker_world.faults import Point
    from tests.worker_world.plans import Trouble
    from tests.worker_world.queue import Waiting
    from tests.worker_world.world import Environment

SKEWS_SECONDS: Final = (0.0, 2.0, -3.0)
KEYS: Final = 6
IDS_PER_ROUND: Final = 8
MOST_STOPPED: Final = 2
MOST_RECORDS: Final = 8
FLAKY, PERMANENT, POISON, SLOW = 2, 3, 4, 5
"""Keys whose bodies fail at first, fail for good, fail always, and outlast their lease."""


class History(World):
    """One course of events."""

    def __init__(
        self,
        client: Redis,
        *,
        seed: int,
        fault_rate: float = 0.06,
        killers: bool = True,
        losses: bool = True,
        met: Counter[tuple[Point, Trouble]] | None = None,
        **overrides: Any,  # Any: fields of Settings
    ) -> None:
        super().__init__(client, **{"degraded": "defer", **overrides})
        self.chance = random.Random(seed)
        self.uniform = random.Random(seed).uniform
        self.plan = Chance(self.chance, rate=fault_rate, met=Counter() if met is None else met)
        self.ledger = Ledger(self)
        self.killers, self.losses = killers, losses
        self.recorded = overrides.get("durable_mode") != "redis"
        # A table claim counts no attempts.
        self.counted = overrides.get("degraded") != "durable"
        self.body = self.compute
        self.on_stop = self._others_go_on
        self.steps = 0
        self.happened: Counter[str] = Counter()
        self.flushes_of_plain_batches: Counter[int] = Counter()
        self._scripts_known = True
        self._round = 0
        self._depth = 0
        self._made: Counter[str] = Counter()
        self._inside: list[tuple[Environment, Job]] = []
        # Ids whose row was final when the present batch of a container began, and had to be asked.
        self._known_settled: dict[Environment, set[tuple[str, str]]] = {}
        self.claims = Claims(Keyspace("sekali", 64), "operator")
        self.pool = [self._started(number) for number in range(len(SKEWS_SECONDS))]

    def run(self, steps: int) -> None:
        """Do random things, then let everything come to its end and check it."""
        for _ in range(steps):
            self.step()
        self.finish()

    def step(self) -> None:
        """Do one random thing."""
        self.steps += 1
        actions: list[tuple[int, Callable[[], None]]] = [
            (45, self._deliver_some),
            (25, self._send_some),
            (12, self._let_time_pass),
            (4, self._invalidate),
            (3, self._restart),
            (2, self._redrive),
        ]
        if self.losses:
            actions += [(2, self._evict), (1, self._lose_everything), (1, self._forget_scripts)]
        weights, choices = zip(*actions, strict=True)
        [act] = self.chance.choices(choices, weights)
        self.happened[act.__name__] += 1
        act()
        self.ledger.check_records(self.server.client, recorded=self.recorded)

    def finish(self) -> None:
        """Switch the faults off and deliver until nothing waits any more."""
        self.plan.on = False
        for _ in range(300):
            visible_at = self.queue.next_visible_at()
            if visible_at is None:
                break
            self.pass_time(max(visible_at - self.now, 0.0))
            try:
                self._deliver(self._fresh(), self.queue.visible())
            except Killed:
                continue
            self.ledger.check_records(self.server.client, recorded=self.recorded)
        self.ledger.check_end()
        # A value that was dropped or cannot be read is asked for once more.
        if max(self.flushes_of_plain_batches, default=0) > 3:
            raise Broken(f"plain batches waited too often: {self.flushes_of_plain_batches}")

    # --- what happens ---

    def _deliver_some(self) -> None:
        idle = [one for one in self.pool if not one.stopped]
        visible = self.queue.visible()
        if not idle or not visible:
            return
        self.chance.shuffle(visible)
        chosen = visible[: self.chance.randint(1, MOST_RECORDS)]
        hidden = [one for one in self.queue.waiting.values() if one not in visible]
        if hidden and self.chance.random() < 0.1:
            chosen.append(self.chance.choice(hidden))  # delivered twice at once
        environment = self.chance.choice(idle)
        try:
            self._deliver(environment, chosen)
        except Killed:
            self._replace(environment)

    def _deliver(self, environment: Environment, messages: list[Waiting]) -> None:
        records = self.queue.receive(messages)
        self._known_settled[environment] = self._settled_among(messages)
        ends, before, flushes = self.now + INVOCATION_SECONDS, self._noted(), environment.flushes
        marks = environment.crossed["renew"]
        try:
            returned = environment.invoke(*records)
        finally:
            self._note_letters()
        marked = environment.crossed["renew"] != marks
        if before == self._noted() and not marked and self._scripts_known:
            self.flushes_of_plain_batches[environment.flushes - flushes] += 1
        if self.now > ends or (self.plan.on and self.chance.random() < 0.02):
            return  # too late, or nobody heard the answer: everything comes back
        self.ledger.check_records(self.server.client, recorded=self.recorded)
        for message in messages:
            if message.message_id not in returned:
                self.ledger.check_deletion(message, made=self._made)
                self.queue.delete(message.message_id)

    def _noted(self) -> tuple[float, int, int]:
        """Return what stays as it is while a batch takes its plain course."""
        return self.now, sum(self.plan.met.values()), self.steps

    def _settled_among(self, messages: list[Waiting]) -> set[tuple[str, str]]:
        """Return the ids whose body must not start again: done or failed, and a reason to ask.

        Without a loss the record itself is the reason; with one, a redelivery is.
        """
        settled = set()
        for message in messages:
            name, job_id, payload_hash = self.ledger.identity(message)
            row = self.row(job_id, name=name)
            if (
                row is not None
                and row.status in {"done", "failed"}
                and row.payload_hash == payload_hash
                and (message.receives > 1 or not self.losses)
            ):
                settled.add((name, job_id))
        return settled - self.ledger.redriven

    def _note_letters(self) -> None:
        for letter in self.queue.fresh_letters():
            kind = "letter" if letter in self.queue.dead else "copy"
            self._made[f"{kind} {self.ledger.identity(letter)}"] += 1

    def _send_some(self) -> None:
        if self.chance.random() < 0.2:
            self._round += 1
        for _ in range(self.chance.randint(1, 4)):
            number = self.chance.randrange(IDS_PER_ROUND)
            name = "once" if number % 4 == 3 else "compute"
            payload: dict[str, object] = {"n": number % KEYS}
            if self.chance.random() < 0.05:
                payload["wrong"] = True
                if self.chance.random() < 0.5:
                    payload["n"] = (number + 1) % KEYS
            message = self.send(f"{self._round}-{number}", payload, name=name)
            self.ledger.note_sent(self.queue.waiting[message])

    def _let_time_pass(self) -> None:
        self.pass_time(self.chance.choice([0.1, 1.0, 3.0, 13.0, 61.0]))

    def _invalidate(self) -> None:
        """Change the data of a key, then tell: the key first, the log second."""
        number = self.chance.randrange(KEYS)
        self.ledger.versions[number] += 1
        log = Log(self.claims.keyspace)
        for command in (
            self.claims.invalidate("compute", f"~{number}"),
            log.append([Entry("k", f"compute/~{number}", new_mark())]),
        ):
            client: Any = self.server.client  # Any: its stubs leave this method untyped
            client.execute_command(*command.with_text())

    def _restart(self) -> None:
        idle = [one for one in self.pool if not one.stopped]
        if idle:
            self._replace(self.chance.choice(idle))

    def _redrive(self) -> None:
        if self.queue.dead:
            letter = self.chance.choice(self.queue.dead)
            self.ledger.redriven.add(self.ledger.identity(letter)[:2])
            self.redrive([self.queue.dead.index(letter)])

    def _evict(self) -> None:
        keys = self.server.client.keys("*")
        if keys:
            self.server.client.delete(self.chance.choice(sorted(keys)))
            self._forget()

    def _lose_everything(self) -> None:
        self.server.client.flushall()
        self._forget()

    def _forget_scripts(self) -> None:
        """Let the server know no script while one batch is taken."""
        self.server.client.script_flush()
        self._scripts_known = False
        self._deliver_some()
        self.server.load_scripts()
        self._scripts_known = True

    def _forget(self) -> None:
        self.ledger.forgotten |= {(one.name, one.id) for one in self.ledger.sent.values()}

    def _others_go_on(self, environment: Environment) -> None:
        if self._depth >= MOST_STOPPED:
            return
        self._depth += 1
        began = self.now
        self.pass_time(self.chance.choice([0.0, 1.0, 13.0, 40.0]))
        for _ in range(self.chance.randint(1, 3)):
            self.step()
        if self.chance.random() < 0.5:
            environment.clock.freeze(self.now - began)
        self._depth -= 1

    # --- containers ---

    def _started(self, number: int) -> Environment:
        return self.environment(self.plan, skew_seconds=SKEWS_SECONDS[number])

    def _fresh(self) -> Environment:
        return self.environment(self.plan)

    def _replace(self, environment: Environment) -> None:
        at = self.pool.index(environment)
        self.pool[at] = self._started(at)

    # --- the jobs ---

    def compute(self, environment: Environment, job: Job) -> object:
        """Run one body, as its key says."""
        identity = (job.name, job.id)
        self._check_alone(environment, job)
        if identity in self._known_settled.get(environment, ()):
            self.ledger.complaints.append(f"{identity} was settled and runs again")
        self.ledger.starts[identity].append(job.lease.token)
        number, version = job.payload["n"], self.ledger.versions[job.payload["n"]]
        if not self.counted:
            self.ledger.forgotten.add(identity)
        self._inside.append((environment, job))
        try:
            if environment.decide("body") == "die_before":
                raise Killed
            if self.killers and job.name == "once" and job.id.endswith("7"):
                raise Killed
            self._behave(number, len(self.ledger.starts[identity]))
            if number == SLOW:
                for _ in range(3):
                    self.pass_time(5.0)
                    environment.container.current.heartbeat.beat()
        finally:
            self._inside.remove((environment, job))
        return {"n": number, "v": version}

    def _behave(self, number: int, starts: int) -> None:
        if number == PERMANENT:
            raise PermanentError("never")
        if number == POISON or (number == FLAKY and starts == 1):
            raise OSError("no route")
        self.pass_time(self.chance.choice([0.0, 0.0, 0.0, 0.2, 0.4]))

    def _check_alone(self, environment: Environment, job: Job) -> None:
        """Require that nobody else works on the key under a lease that still holds."""
        for other, theirs in self._inside:
            if (
                other is not environment
                and (theirs.name, theirs.key) == (job.name, job.key)
                and theirs.lease.remaining() > 0
                and not self.ledger.forgotten
            ):
                self.ledger.complaints.append(f"{job.key} is computed twice under live leases")
