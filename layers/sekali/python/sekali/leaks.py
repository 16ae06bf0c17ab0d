"""Find leases that their holders never ended, and holders that never end.

    overdue   the key says that somebody works on it, and its lease has run out: the holder died.
              The next claim takes it over; until there is one, only this list knows.
    long      the lease is alive, and its holder has worked for more than five times what the job
              usually takes.
    endless   the lease is alive, and its holder has renewed it for longer than any invocation can
              last. Only such a lease may be revoked.

Looking changes nothing. A revocation bumps the fence in the same step that checks who holds the
lease, so that the holder, should it still run, is superseded, and a newer one is left alone.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from sekali.errors import SharedUnavailable
from sekali.light_dataclass import dataclass
from sekali.scripts import NOTE_RUNS, REVOKE, Command

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from sekali.keys import Keyspace
    from sekali.shared import Shared

LONGEST_INVOCATION_SECONDS: Final = 900.0
"""No Lambda invocation lasts longer."""
LONG_FACTOR: Final = 5.0
LEASES_PER_BUCKET: Final = 1_000
"""Leases of one bucket that are looked at in one go, those that end first."""
COMMANDS_PER_FLUSH: Final = 500
RUNS_TTL_SECONDS: Final = 7 * 86_400

T = TypeVar("T")
State = Literal["overdue", "live", "long", "endless"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """One lease that was found, with who holds it and since when. Times are seconds."""

    state: State
    name: str
    key: str
    id: str
    owner: str
    fence: int
    token: str
    age_seconds: float
    remaining_seconds: float
    record: bytes


class Leaks:
    """Look at every lease of a namespace, bucket by bucket."""

    def __init__(self, keyspace: Keyspace, shared: Shared) -> None:
        """Keep the names and the door."""
        self._keyspace = keyspace
        self._shared = shared

    def look(self, *, now: float, lease_seconds: float) -> list[Holding]:
        """Return every lease that is held or overdue, the oldest first.

        Args:
            now: wall-clock seconds, which ages are told by.
            lease_seconds: length of a lease, which an endless holder has renewed past its end.

        Raises:
            SharedUnavailable: the shared cache did not answer.
        """
        found = self._held(list(self._records()), now=now, lease_seconds=lease_seconds)
        return sorted(found, key=lambda holding: -holding.age_seconds)

    def look_at(self, name: str, key: str, *, now: float, lease_seconds: float) -> Holding | None:
        """Return the lease of one key, as `look` does; None where nobody holds it.

        Raises:
            KeyInvalid: the name or the key cannot be used.
            SharedUnavailable: the shared cache did not answer.
        """
        record = self._keyspace.of(name, key, key).key
        return next(iter(self._held([record], now=now, lease_seconds=lease_seconds)), None)

    def revoke(self, holding: Holding) -> int:
        """Take the lease away; returns the new fence, or 0 if it is held by somebody newer.

        Raises:
            SharedUnavailable: the shared cache did not answer.
        """
        lease, active = self._keyspace.beside(holding.record)
        ttl_ms = int(2 * LONGEST_INVOCATION_SECONDS * 1000)
        command = Command.run(
            REVOKE, (lease, holding.record, active), (holding.token, holding.fence, ttl_ms)
        )
        (fence,) = self._flush([command])
        return int(fence)

    def note_runs(self, seconds: Mapping[str, float]) -> Command:
        """Return the command that keeps how long each job runs."""
        pairs = [part for name, run in seconds.items() for part in (name, f"{run:.6f}")]
        ttl_ms = RUNS_TTL_SECONDS * 1000
        return Command.run(NOTE_RUNS, (self._keyspace.runs,), (ttl_ms, *pairs))

    def _held(self, records: Sequence[bytes], *, now: float, lease_seconds: float) -> list[Holding]:
        runs = self.runs()
        found = []
        for record, fields, left_ms in self._read(records):
            if fields[2] == b"running":
                name, _ = self._keyspace.parts(record)
                age = max(now - int(fields[5]) / 1000, 0.0)
                state = _state(left_ms, age, lease_seconds, runs.get(name))
                found.append(self._holding(record, fields, left_ms, age, state))
        return found

    def runs(self) -> dict[str, float]:
        """Return how long each job usually runs, in seconds, of those that ran lately."""
        (known,) = self._flush([Command(("HGETALL", self._keyspace.runs))])
        pairs = (
            known.items() if isinstance(known, dict) else zip(known[::2], known[1::2], strict=True)
        )
        return {name.decode(): float(run) for name, run in pairs}

    def _records(self) -> Iterator[bytes]:
        listing = [
            Command(("ZRANGE", active, 0, LEASES_PER_BUCKET - 1))
            for active in self._keyspace.actives()
        ]
        for chunk in _chunks(listing):
            for members in self._flush(chunk):
                yield from members

    def _read(self, records: Sequence[bytes]) -> Iterator[tuple[bytes, Sequence[Any], int]]:
        for chunk in _chunks(records, COMMANDS_PER_FLUSH // 2):
            commands = []
            for record in chunk:
                lease, _ = self._keyspace.beside(record)
                fields = ("f", "tk", "st", "owner", "id", "started")
                commands += [Command(("HMGET", record, *fields)), Command(("PTTL", lease))]
            replies = self._flush(commands)
            yield from zip(chunk, replies[::2], replies[1::2], strict=True)

    def _holding(
        self,
        record: bytes,
        fields: Sequence[Any],
        left_ms: int,
        age: float,
        state: State,
    ) -> Holding:
        fence, token, _, owner, job_id, _ = fields
        name, key = self._keyspace.parts(record)
        return Holding(
            state=state,
            name=name,
            key=key,
            id=(job_id or b"").decode(),
            owner=(owner or b"").decode(),
            fence=int(fence),
            token=token.decode(),
            age_seconds=age,
            remaining_seconds=max(left_ms, 0) / 1000,
            record=record,
        )

    def _flush(self, commands: Sequence[Command]) -> list[Any]:  # Any: as `Shared.flush`
        replies = self._shared.flush(commands, operation="recover")
        for reply in replies:
            if isinstance(reply, Exception):
                raise SharedUnavailable("recover", str(reply)) from reply
        return replies


def _state(left_ms: int, age: float, lease_seconds: float, run: float | None) -> State:
    if left_ms <= 0:
        return "overdue"
    if age > LONGEST_INVOCATION_SECONDS + lease_seconds:
        return "endless"
    if run is not None and age > LONG_FACTOR * run and age > lease_seconds:
        return "long"
    return "live"


def _chunks(items: Iterable[T], size: int = COMMANDS_PER_FLUSH) -> Iterator[list[T]]:
    iterator = iter(items)
    while chunk := list(islice(iterator, size)):
        yield chunk
