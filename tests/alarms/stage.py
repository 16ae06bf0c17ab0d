"""A watched stack, and what an attacker, an operator or a neighbour does to it from outside.

No metric is put here: whatever rings was measured.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import os
import shutil
import signal
import time
from typing import TYPE_CHECKING, Any, Final, Self

from redis import Redis

from infra.local import demo, flights
from infra.local.cloudwatch.alarm_state import ALARM, OK
from infra.local.cloudwatch.names import metric
from infra.local.cloudwatch.pace import Pace
from infra.local.evidence import execution_of
from infra.local.gather import COMPUTED, SETTLED
from infra.local.stack import LocalStack
from infra.local.synthesis import CONTEXT, synthesize
from infra.local.valkey import NODE_BYTES
from infra.local.workload import CARRIERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from infra.local.cloudwatch.alarm_state import State
    from infra.local.environment import Environment
    from infra.local.logs import LogRecord
    from infra.local.template import Function, Queue

# The oldest message is too old after two minutes.
WITHIN_SECONDS: Final = 180.0
_PUSH_SECONDS: Final = 0.3
_FOUND_SECONDS: Final = 2.0
# What a claim says that takes over from a holder which is no more.
_TOOK_OVER: Final = "which never ended it"


class Stage:
    """One stack for one scenario, from `with` to its end.

    Args:
        context: Other choices of the synth than usual.
        minute_seconds: How long one of CloudWatch's minutes takes.
        poll: Whether queues are worked off from the start.
        change: Changes the functions before anything is started, as an operator may.
    """

    def __init__(
        self,
        *,
        context: dict[str, str] | None = None,
        minute_seconds: float = 2.0,
        poll: bool = True,
        change: Callable[[Function], Function] | None = None,
    ) -> None:
        self.stack = LocalStack(
            synthesize({**CONTEXT, **(context or {})}),
            poll=False,
            pace=Pace(minute_seconds=minute_seconds),
        )
        if change is not None:
            template = self.stack.template
            functions = {name: change(one) for name, one in template.functions.items()}
            self.stack.template = dataclasses.replace(template, functions=functions)
        self._exit = contextlib.ExitStack()
        self._poll = poll
        self._numbers = itertools.count()
        self._asked: list[dict[str, str]] = []
        self._newest: list[str] = []
        self._bodies: set[str] = set()
        self._takers: set[str] = set()
        self._computed: set[str] = set()
        self._prefix = f"{self.stack.template.stack_name}-"
        self.months = dict(
            flights.objects(flights.read_months(demo.FLIGHTS, months=flights.MONTHS[:3]))
        )

    def __enter__(self) -> Self:
        self._exit.enter_context(self.stack)
        self.stack.logs.listen(self._hear)
        (bucket,) = self.stack.template.buckets.values()
        with self.stack.events.deaf_to_objects():
            for key, content in self.months.items():
                self.stack.aws.s3.put_object(Bucket=bucket, Key=key, Body=content)
        if self._poll:
            self.stack.start_polling()
        return self

    def __exit__(self, *_error: object) -> None:
        self._exit.close()

    # What jobs come.

    @property
    def queue(self) -> Queue:
        """The worker's queue."""
        return self.stack.source_queue(self.worker)

    @property
    def worker(self) -> str:
        """The logical id of the first worker."""
        return self.stack.template.mappings[0].function

    def ask(
        self, number: int, *, month: str | None = None, same: bool = False, apart: bool = False
    ) -> None:
        """Send so many jobs, each of its own key or all of the `same` one; `apart`: one by one."""
        bodies = []
        for one in itertools.islice(self._numbers, number):
            at = 0 if same else one
            payload = {
                "month": month or flights.MONTHS[at % 3],
                "carrier": CARRIERS[at % len(CARRIERS)],
                "origin": "".join(chr(65 + at // power % 26) for power in (1, 26, 676)),
            }
            if not same:
                self._asked.append(payload)
            bodies.append(_body(one, payload))
        self._newest = bodies
        self.send(bodies, apart=apart)

    def repeat(self) -> None:
        """Send what was asked last once more, ids and all, as a queue may."""
        self.send(self._newest)

    def ask_again(self) -> None:
        """Ask once more for each key of its own, under another id."""
        self.send([_body(next(self._numbers), payload) for payload in self._asked])

    def send(self, bodies: list[str], *, apart: bool = False) -> None:
        """Send messages as they are."""
        url, sqs = self.stack.aws.queue_url(self.queue), self.stack.aws.sqs
        if apart:
            for body in bodies:
                sqs.send_message(QueueUrl=url, MessageBody=body)
            return
        for start in range(0, len(bodies), 10):
            entries: list[Any] = [  # Any: plain dicts.
                {"Id": str(index), "MessageBody": body}
                for index, body in enumerate(bodies[start : start + 10])
            ]
            sqs.send_message_batch(QueueUrl=url, Entries=entries)

    def empty(self, queue: Queue) -> None:
        """Take every message out, as a person does who has read it."""
        url, sqs = self.stack.aws.queue_url(queue), self.stack.aws.sqs
        while messages := sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"):
            for message in messages:
                sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])

    def forget_month(self) -> None:
        """Let the first month be loaded again by whoever asks next: its file changed.

        Returns once the function that invalidates it has done so.
        """
        (bucket,) = self.stack.template.buckets.values()
        key = next(key for key in self.months if flights.MONTHS[0] in key)
        before, deadline = self._invalidations(), time.monotonic() + WITHIN_SECONDS
        self.stack.aws.s3.put_object(Bucket=bucket, Key=key, Body=self.months[key])
        while self._invalidations() == before:
            time.sleep(0.02)
            if time.monotonic() > deadline:
                raise TimeoutError("nobody invalidated the month")

    def _invalidations(self) -> float:
        (name,) = (
            one.name
            for one in self.stack.template.functions.values()
            if one.handler.startswith("handlers.invalidate")
        )
        named = metric("AWS/Lambda", "Invocations", {"FunctionName": name})
        found = self.stack.watch.store.samples(named, period=10**10, start=0, end=10**12)
        return sum(samples.total for samples in found.values())

    def look_for_leaks(self) -> None:
        """Let the recovery function look, as its schedule does."""
        for name, function in self.stack.template.functions.items():
            if function.handler.startswith("handlers.recover"):
                self.stack.events.call(name, {"source": "aws.events"})

    # What befalls the functions.

    def kill(self) -> None:
        """Kill an environment as soon as it is in the middle of a body, within two seconds.

        One that took over from a dead one lives: what it has to tell of that it tells at its end.
        """
        self.stack.fleets[self.worker].kill_one(when=self._holds, within_seconds=_FOUND_SECONDS)

    @contextlib.contextmanager
    def frozen_holder(self) -> Iterator[None]:
        """Let one that holds a lease stand still as long as the block, as a paused machine does.

        Nobody stands still where nobody begins a body within two seconds.
        """
        caught: list[int] = []

        def catch(environment: Environment) -> bool:
            pid = environment.doors.round_trips.client_pid
            if not caught and self._holds(environment) and pid is not None:
                caught.append(pid)
                os.killpg(pid, signal.SIGSTOP)
            # Nobody is to be killed.
            return False

        deadline = time.monotonic() + _FOUND_SECONDS
        while not caught and time.monotonic() < deadline:
            self.stack.fleets[self.worker].kill_one(when=catch, within_seconds=0.02)
        try:
            yield
        finally:
            for pid in caught:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(pid, signal.SIGCONT)

    def wait_for_a_successor(self, *, within_seconds: float) -> None:
        """Wait until one more that took over from another has an outcome."""
        before, deadline = len(self._takers & self._computed), time.monotonic() + within_seconds
        while len(self._takers & self._computed) == before and time.monotonic() < deadline:
            time.sleep(0.02)

    def _holds(self, environment: Environment) -> bool:
        """Tell whether it is in a body, and not one that took over: that has something to tell."""
        return environment.request_id in self._bodies - self._takers

    def _hear(self, record: LogRecord, _environment: Environment) -> None:
        if execution_of(record.text, interrupted=False) is not None:
            self._bodies.add(record.request_id)
        elif _TOOK_OVER in record.text:
            self._takers.add(record.request_id)
        elif record.fields.get("message") == SETTLED and record.fields.get("source") == COMPUTED:
            self._computed.add(record.request_id)

    # What befalls the cache server.

    @contextlib.contextmanager
    def cache(self) -> Iterator[Redis]:
        """Speak to the cache server itself, past every door, as a neighbour does."""
        host, port = self.stack.cache_address
        with Redis(host=host, port=port, socket_timeout=30.0) as client:
            yield client

    def leave_room(self, room_bytes: int) -> None:
        """Let the server take so many bytes more than it has by now."""
        with self.cache() as client:
            used_bytes = int(client.info("memory")["used_memory"])
            client.config_set("maxmemory", used_bytes + room_bytes)

    def give_memory(self) -> None:
        """Let the server have what a node of its type has."""
        (cache,) = self.stack.template.caches
        with self.cache() as client:
            client.config_set("maxmemory", NODE_BYTES[cache.node_type])

    # What rings.

    def state(self, alarm: str) -> State:
        """Answer an alarm's state; its name without the stack's."""
        crashed = self.stack.watch.crashed
        if crashed is not None:
            raise crashed
        return self.stack.watch.alarms.states()[f"{self._prefix}{alarm}"]

    def drive(self, alarms: set[str], push: Callable[[], None]) -> None:
        """Push until each of the alarms has rung, at the same time or not."""
        left, deadline = set(alarms), time.monotonic() + WITHIN_SECONDS
        while left:
            push()
            time.sleep(_PUSH_SECONDS)
            left -= {alarm for alarm in left if self._rang(alarm)}
            if time.monotonic() > deadline:
                raise TimeoutError(f"{sorted(left)} did not ring: {self.told(left)}")

    def calm(self, alarms: set[str], push: Callable[[], None]) -> None:
        """Wait until each of the alarms is OK again."""
        deadline = time.monotonic() + WITHIN_SECONDS
        while any(self.state(alarm) != OK for alarm in alarms):
            push()
            time.sleep(_PUSH_SECONDS)
            if time.monotonic() > deadline:
                left = {alarm for alarm in alarms if self.state(alarm) != OK}
                raise TimeoutError(f"{sorted(left)} did not end: {self.told(left)}")

    def settle(self) -> None:
        """Wait until the alarms were looked at for the first time."""
        deadline = time.monotonic() + WITHIN_SECONDS
        while OK not in self.stack.watch.alarms.states().values():
            time.sleep(_PUSH_SECONDS)
            if time.monotonic() > deadline:
                raise TimeoutError("no alarm was evaluated")

    def told(self, alarms: set[str]) -> dict[str, Any]:
        """Answer the last data points of some alarms."""
        return {
            status.alarm.name: status.points
            for status in self.stack.watch.alarms.statuses()
            if status.alarm.name.removeprefix(self._prefix) in alarms
        }

    def rung(self) -> set[str]:
        """Answer every alarm that rang so far."""
        return {
            change.alarm.name.removeprefix(self._prefix)
            for change in self.stack.watch.alarms.changes()
            if change.after == ALARM
        }

    def _rang(self, alarm: str) -> bool:
        self.state(alarm)
        return alarm in self.rung()


def with_changed_module(
    function: Function, folder: Path, *, module: str, old: str, new: str
) -> Function:
    """Answer the function with another text in one of its modules, deployed from `folder`."""
    copy = folder / function.logical_id
    shutil.copytree(function.code, copy, ignore=shutil.ignore_patterns("__pycache__"))
    path = copy / module
    text = path.read_text()
    if old not in text:
        raise ValueError(f"{module} does not hold {old!r}")
    path.write_text(text.replace(old, new))
    return dataclasses.replace(function, code=copy)


def _body(number: int, payload: dict[str, str]) -> str:
    return json.dumps({"sekali": 1, "id": f"j{number}", "name": "delay-report", "payload": payload})
