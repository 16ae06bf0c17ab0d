"""Remember what happened in a history, and say what must be true of it."""

from __future__ import annotations

import itertools
import json
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from sekali import codec
from sekali.message import decode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from redis import Redis

    from tests.worker_world.queue import Waiting
    from tests.worker_world.world import World

MAX_ATTEMPTS: Final = 3
FINAL_REASONS: Final = {"permanent", "quarantined", "payload_mismatch", "waited_too_long"}


class Broken(AssertionError):
    """A promise of the protocol does not hold."""


@dataclass(frozen=True, slots=True)
class Sent:
    """One job that somebody asked for."""

    name: str
    id: str
    payload_hash: str
    version: int


@dataclass(slots=True)
class Ledger:
    """The books of one history."""

    world: World
    versions: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    sent: dict[tuple[str, str, str], Sent] = field(default_factory=dict)
    starts: defaultdict[tuple[str, str], list[str]] = field(
        default_factory=lambda: defaultdict(list)
    )
    # Ids whose shared record may have been lost, so that its count of attempts starts again.
    forgotten: set[tuple[str, str]] = field(default_factory=set)
    redriven: set[tuple[str, str]] = field(default_factory=set)
    done: set[tuple[str, str, str]] = field(default_factory=set)
    spent: Counter[str] = field(default_factory=Counter)
    deletions: Counter[str] = field(default_factory=Counter)
    # What a body found: raised there, it would only be one more error of a job.
    complaints: list[str] = field(default_factory=list)

    def identity(self, message: Waiting) -> tuple[str, str, str]:
        """Return name, id and payload hash of a message."""
        read = decode(message.record(), default_job="compute")
        assert read is not None
        return read.name, read.id, codec.payload_hash(read.payload)

    def note_sent(self, message: Waiting) -> None:
        """Write down a job, with the version of its data when it was first asked for.

        Its result must not be older than that; for a repeat, it may be.
        """
        identity = self.identity(message)
        number = json.loads(message.body)["payload"]["n"]
        self.sent.setdefault(identity, Sent(*identity, self.versions[number]))

    # --- at every step ---

    def check_deletion(self, message: Waiting, *, made: Mapping[str, int]) -> None:
        """Require a reason for each message that is let go: settled, buried or copied."""
        name, job_id, payload_hash = identity = self.identity(message)
        row = self.world.row(job_id, name=name)
        if row is not None and row.status == "done" and row.payload_hash == payload_hash:
            self.deletions["recorded"] += 1
            return
        if identity in self.done:
            self.deletions["done in the cache"] += 1
            return
        for kind in ("letter", "copy"):
            key = f"{kind} {identity}"
            if made.get(key, 0) > self.spent[key]:
                self.spent[key] += 1
                self.deletions[kind] += 1
                return
        raise Broken(f"{identity} was deleted for no reason")

    def check_records(self, client: Redis, *, recorded: bool) -> None:
        """Require that what the cache calls done is what the table holds."""
        if self.complaints:
            raise Broken(self.complaints[0])
        keys: Any = client.keys("*:job:compute/*") + client.keys("*:job:once/*")
        for key in keys:  # Any: the client's own stubs
            record: Any = client.hgetall(key)  # Any: as above
            name, _, job_id = key.partition(b":job:")[2].decode().partition("/")
            if record.get(b"st") != b"done":
                continue
            self.done.add((name, job_id, record[b"ph"].decode()))
            row = self.world.row(job_id, name=name)
            if not recorded:
                continue
            if row is None or row.status != "done":
                raise Broken(f"{job_id} is done in the cache alone")
            if (row.stored, row.payload_hash.encode()) != (record[b"result"], record[b"ph"]):
                raise Broken(f"{job_id} has two results")
            if client.pttl(key) <= 0:
                raise Broken(f"{key!r} has no end")

    # --- at the end ---

    def check_end(self) -> None:
        """Require everything that a drained world promises."""
        if self.world.queue.waiting:
            raise Broken(f"still waiting: {self.world.queue.waiting}")
        self._check_outcomes_are_final()
        buried: defaultdict[tuple[str, str, str], list[str]] = defaultdict(list)
        for letter, reason in zip(self.world.queue.dead, self.world.reasons(), strict=True):
            if reason not in FINAL_REASONS:
                raise Broken(f"an unknown reason: {reason}")
            buried[self.identity(letter)].append(reason)
        for one in self.sent.values():
            self._check_answered(one, buried[one.name, one.id, one.payload_hash])
        for identity, starts in self.starts.items():
            # One body may have died before anything told the record that it had started.
            bounded = identity not in self.forgotten | self.redriven
            if bounded and len(starts) > MAX_ATTEMPTS + 1:
                raise Broken(f"{identity} was started {len(starts)} times")

    def _attempts_of(self, sent: Sent) -> set[str]:
        """Return the claims of an id whose body started, or was marked right before it did."""
        marked = self.world.server.marked
        ending = f":job:{sent.name}/{sent.id}".encode()
        found = [tokens for record, tokens in marked.items() if record.endswith(ending)]
        return {*self.starts[sent.name, sent.id], *itertools.chain(*found)}

    def _check_outcomes_are_final(self) -> None:
        last: dict[tuple[str, str], str] = {}
        for outcome in self.world.accepted:
            identity = (outcome.name, outcome.id)
            before = last.get(identity)
            if before == "done" or (before == "failed" and identity not in self.redriven):
                raise Broken(f"{identity} was {before} before it was {outcome.outcome}")
            last[identity] = outcome.outcome

    def _check_answered(self, sent: Sent, reasons: list[str]) -> None:
        row = self.world.row(sent.id, name=sent.name)
        done = (sent.name, sent.id, sent.payload_hash) in self.done
        if row is not None and row.status == "done" and row.payload_hash == sent.payload_hash:
            result = codec.decode(row.stored)
            if result["v"] < sent.version:
                raise Broken(f"{sent} got version {result['v']}")
        elif not reasons and not done:
            raise Broken(f"{sent} is lost: {row}")
        spent = self._attempts_of(sent)
        if "quarantined" in reasons and len(spent) < MAX_ATTEMPTS:
            raise Broken(f"{sent} is quarantined after {spent}")
        others = {one.payload_hash for one in self.sent.values() if one.id == sent.id}
        if "payload_mismatch" in reasons and len(others) == 1:
            raise Broken(f"{sent} is refused for a payload that nobody else sent")
