"""Histories of one table, shared by containers whose clocks disagree, beside a plain model.

Every step is made on the store and on the model (the library's `MemoryStore`, a dictionary), with
the same faults; answers and rows must agree, and the rules of the durable record must hold between
any two rows of an id.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sekali.errors import StoreUnavailable
from sekali.store_rows import Accepted, Answer, Row
from sekali.testing import FrozenClock
from tests.contracts.store_backends import InMemory

if TYPE_CHECKING:
    from collections.abc import Callable

    from sekali.store_rows import DurableStore, JobId
    from tests.contracts.store_backends import Backend

START = 1_700_000_000.0
CLOCKS_APART_SECONDS = (0.0, 900.0, -900.0, 450.0)
TTL_SECONDS = 3_600.0
IDS: tuple[JobId, ...] = (("job", "a"), ("job", "b"), ("other", "a"))

Told = Answer | StoreUnavailable | bool


@dataclass
class Container:
    """One claimer: its clock, its two views, and what it knows of its last claim of each id."""

    number: int
    clock: FrozenClock
    store: DurableStore
    model: DurableStore
    tokens: dict[JobId, str]
    fences: dict[JobId, int]


@dataclass
class Step:
    """One call, so that it can arrive again later as it was."""

    verb: str
    job: JobId
    rearm: int
    act: Callable[[DurableStore], Answer | bool]
    sent_at: float


class History:
    """A random but repeatable course of events."""

    def __init__(self, seed: int, backend: Backend) -> None:
        self.chance = random.Random(seed)
        self.real: Backend = backend
        self.plain = InMemory()
        # A clock so far behind that nothing has expired yet: it sees what is stored.
        past = FrozenClock(wall=0.0)
        self.observer = (backend.open(past), self.plain.open(past))
        self.containers = [
            self.container(number, START + apart)
            for number, apart in enumerate(CLOCKS_APART_SECONDS)
        ]
        self.late: list[Step] = []
        self.serial = 0
        self.rows: dict[JobId, Row] = {}
        self.met: Counter[tuple[str, str, str]] = Counter()

    def container(self, number: int, wall: float) -> Container:
        clock = FrozenClock(wall=wall)
        return Container(
            number, clock, self.real.open(clock), self.plain.open(clock), tokens={}, fences={}
        )

    def run(self, steps: int) -> None:
        """Make the steps, and check each."""
        for _ in range(steps):
            self.pass_time()
            self.collect()
            who = self.chance.choice(self.containers)
            if self.late and self.chance.random() < 0.1:
                self.make(who, self.late.pop(self.chance.randrange(len(self.late))), late=True)
                continue
            job = self.chosen()
            who = self.holder(job) or who
            step = self.next_step(who, job)
            self.make(who, step)
            if step.verb != "claim" and self.chance.random() < 0.2:
                self.late.append(step)

    def chosen(self) -> JobId:
        """Choose an id, rather one that has not ended."""
        unfinished = [job for job in IDS if job not in self.rows or not self.rows[job].is_final()]
        return self.chance.choice(unfinished if unfinished and self.chance.random() < 0.5 else IDS)

    def holder(self, job: JobId) -> Container | None:
        """Return, half of the time, the container that wrote the row."""
        row = self.rows.get(job)
        if row is None or self.chance.random() < 0.5:
            return None
        return next((who for who in self.containers if who.tokens.get(job) == row.token), None)

    def pass_time(self) -> None:
        seconds = self.chance.choice([0.0, 0.0, 0.25, 1.0, 5.0, 30.0, 120.0, 900.0])
        for who in self.containers:
            who.clock.sleep(seconds)

    def collect(self) -> None:
        """Delete an expired row at some time after every clock agrees that it is expired."""
        slowest = min(who.clock.wall() for who in self.containers)
        expired = [job for job, row in self.rows.items() if row.expires < slowest]
        if expired and self.chance.random() < 0.3:
            for side in (self.real, self.plain):
                side.delete(*expired[0])
            del self.rows[expired[0]]

    def disturb(self) -> None:
        """Let one of ten calls go wrong, on both sides alike."""
        fault = self.chance.choice(["fail", "lose", "throttle"] + ["none"] * 27)
        for side in (self.real, self.plain):
            if fault == "fail":
                side.fail_next()
            if fault == "lose":
                side.lose_reply_next()
            if fault == "throttle":
                side.throttle_next()

    def next_step(self, who: Container, job: JobId) -> Step:
        """Choose what a container does about an id."""
        before = self.rows.get(job)
        verb = self.chance.choice([*["claim"] * 3, *["give back"] * 2, "done", "failed"])
        payload_hash = self.chance.choice(["other"] + [f"payload of {job}"] * 5)
        rearm = 0
        if before is not None and self.chance.random() < 0.3:
            rearm = max(before.fence + self.chance.choice([-1, 0, 1]), 0)
        if verb == "claim" and (job not in who.tokens or self.chance.random() < 0.6):
            self.serial += 1
            who.tokens[job] = f"{who.number}-{self.serial}"
        token = who.tokens.get(job, "")
        name, job_id = job
        fence = who.fences.get(job, 1_000 + self.serial)
        result = b'{"of":"%s"}' % token.encode()

        def act(store: DurableStore) -> Answer | bool:
            if verb == "give back":
                return store.give_back(name, job_id, token=token)
            if verb == "claim":
                return store.claim(
                    name,
                    job_id,
                    payload_hash=payload_hash,
                    token=token,
                    remaining_seconds=60.0,
                    ttl_seconds=TTL_SECONDS,
                    rearm=rearm,
                )
            return store.record(
                name,
                job_id,
                outcome="done" if verb == "done" else "failed",
                payload_hash=payload_hash,
                fence=fence,
                token=token,
                ttl_seconds=TTL_SECONDS,
                result=result if verb == "done" else b"",
                error=b"{}" if verb == "failed" else b"",
                rearm=rearm,
            )

        return Step(verb, job, rearm, act, who.clock.wall())

    def make(self, who: Container, step: Step, *, late: bool = False) -> None:
        """Make a step on both sides; a late one is judged by the time at which it was sent."""
        store, model = who.store, who.model
        if late:
            sender = self.container(who.number, step.sent_at)
            store, model = sender.store, sender.model
        before = self.rows.get(step.job)
        self.disturb()

        told, expected = outcome_of(step.act, store), outcome_of(step.act, model)

        self.rows = self.stored()
        after = self.rows.get(step.job)
        if isinstance(told, StoreUnavailable) or isinstance(expected, StoreUnavailable):
            agree(type(told), type(expected), f"fault of {step}")
        else:
            agree(told, expected, f"answer of {step}")
        if step.verb == "claim" and isinstance(told, Accepted):
            who.fences[step.job] = told.fence
        self.met[step.verb, state(before, step.sent_at), answer_name(told)] += 1
        check_rules(step, before, after, told)

    def stored(self) -> dict[JobId, Row]:
        """Return every row, expired ones too; both sides must agree on them."""
        real, plain = (view.get_many(IDS) for view in self.observer)
        for job in IDS:
            agree(real.get(job), plain.get(job), f"row of {job}")
        return real


def outcome_of(act: Callable[[DurableStore], Answer | bool], store: DurableStore) -> Told:
    try:
        return act(store)
    except StoreUnavailable as error:
        return error


def agree(real: object, plain: object, what: str) -> None:
    if real != plain:
        raise AssertionError(f"{what}: the table gives {real}, the model {plain}")


def state(row: Row | None, now: float) -> str:
    if row is None:
        return "absent"
    return "expired" if row.expires < now else row.status


def answer_name(told: Told) -> str:
    if isinstance(told, bool):
        return "Accepted" if told else "Rejected"
    return type(told).__name__


def check_rules(step: Step, before: Row | None, after: Row | None, told: Told) -> None:
    """Raise where a change of a row is not one that the protocol allows."""
    if before is None or after is None or before == after:
        return
    broken = []
    if before.expires >= step.sent_at:
        if before.status == "done":
            broken.append("a result was replaced")
        if before.status == "failed" and step.rearm < before.fence:
            broken.append("a failure was replaced without a redrive")
        if before.payload_hash != after.payload_hash:
            broken.append("payloads were mixed")
        if (
            (before.status, after.status) == ("running", "running")
            and before.token != after.token
            and before.deadline >= step.sent_at
        ):
            broken.append("a claim in its time was taken over")
    if step.verb == "claim" and after.fence <= before.fence:
        broken.append("the fence did not grow")
    if not isinstance(told, Accepted | StoreUnavailable) and told is not True:
        broken.append("a refused call changed something")
    if broken:
        raise AssertionError(f"{', '.join(broken)}: {step}, {before}, {after}, {told}")
