"""Measure what each script costs the cache server, by the server's own clock, and what it keeps.

`INFO commandstats` counts the microseconds of each command while it runs, the network left out.
Beside it stands what a lock made by hand needs of the same server: SET NX PX, and the script that
compares and deletes.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Final

from redis import Redis

from sekali.answers import Acquired, Ask, End, Lease, Terms, new_token
from sekali.claims import Claims
from sekali.clock import SystemClock
from sekali.keys import Keyspace
from sekali.shared import Shared
from tests.benchmarks.harness import Row, Sample, benchmark
from tests.conftest import started_valkey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sekali.answers import Outcome

ROUNDS: Final = 15
PER_ROUND: Final = 500
IN_MEMORY: Final = 20_000
TERMS: Final = Terms(
    lease_seconds=60.0,
    record_ttl_seconds=3_600.0,
    max_attempts=3,
    cooling_base_seconds=1.0,
    cooling_cap_seconds=10.0,
    born_ttl_seconds=3_600.0,
)
RESULT: Final = b'{"flights":2341,"cancelled":17,"median":-2.0,"mean":9.4}'
PEER: Final = "lock by hand"
_RELEASE: Final = (
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"
)


@dataclass(eq=False)
class Desk:
    """A server and the protocol's commands on it."""

    client: Redis
    claims: Claims = field(default_factory=lambda: Claims(Keyspace("bench", 64), "owner"))
    numbers: Iterator[int] = field(default_factory=count)

    def __post_init__(self) -> None:
        """Build the door."""
        self.shared = Shared(lambda: self.client, clock=SystemClock())

    def ask(self) -> Ask:
        """Return a claim that nobody made before."""
        number = next(self.numbers)
        return Ask(
            name="job",
            id=f"id-{number:08}",
            key=f"key-{number:08}",
            payload_hash="h" * 32,
            token=new_token(),
            terms=TERMS,
        )

    def claim(self, asks: Sequence[Ask]) -> list[Lease]:
        """Claim all of them and return the leases of those that were acquired."""
        replies = self.shared.flush([self.claims.claim(ask) for ask in asks])
        answers = [
            self.claims.read_claim(ask, reply, 0.0)
            for ask, reply in zip(asks, replies, strict=True)
        ]
        return [answer.lease for answer in answers if isinstance(answer, Acquired)]

    def finish(self, leases: Sequence[Lease], outcome: Outcome = "D") -> None:
        """Settle all of them."""
        self.shared.flush([self.claims.finish(_end(lease, outcome)) for lease in leases])

    def renew(self, leases: Sequence[Lease]) -> None:
        """Extend all of them."""
        self.shared.flush(
            [self.claims.renew(one, lease_seconds=60.0, started=False) for one in leases]
        )

    def microseconds(self, command: str, call: Callable[[], object]) -> float:
        """Return the server's own µs per call of `command` while `call` runs."""
        self.client.config_resetstat()
        call()
        stats = self.client.info("commandstats")
        return float(stats[f"cmdstat_{command}"]["usec_per_call"])


@benchmark("server, time of the scripts")
def time_of_scripts() -> Iterator[Row]:
    with _desk() as desk:
        samples: dict[str, list[float]] = {}
        for _ in range(ROUNDS):
            for name, value in _one_round(desk):
                samples.setdefault(name, []).append(value)
        peer = Sample(tuple(samples.pop("by hand, taken")))
        released = Sample(tuple(samples.pop("by hand, released")))
        for name, values in samples.items():
            is_finish = name.startswith("finish")
            yield Row(
                name,
                Sample(tuple(values)),
                "µs of the server",
                peer=f"{PEER}, {'released' if is_finish else 'taken'}",
                peer_value=released if is_finish else peer,
            )
        cold = sum(Sample(tuple(samples[name])).median for name in _OF_A_COLD_JOB)
        yield Row(
            "cold jobs that one shard takes, by its time alone",
            Sample.exactly(1e6 / cold),
            "per second",
        )


_OF_A_COLD_JOB: Final = ("claim, acquired", "finish, done with a value")


def _one_round(desk: Desk) -> Iterator[tuple[str, float]]:
    cold = [desk.ask() for _ in range(PER_ROUND)]
    leases: list[Lease] = []
    yield (
        "claim, acquired",
        desk.microseconds("evalsha", lambda: leases.extend(desk.claim(cold))),
    )
    others = [_sibling(ask, number) for number, ask in enumerate(cold)]
    yield "claim, busy", desk.microseconds("evalsha", lambda: desk.claim(others))
    yield "renew", desk.microseconds("evalsha", lambda: desk.renew(leases))
    yield "finish, done with a value", desk.microseconds("evalsha", lambda: desk.finish(leases))
    yield "claim, done", desk.microseconds("evalsha", lambda: desk.claim(cold))
    yield "claim, served", desk.microseconds("evalsha", lambda: desk.claim(others))
    again = desk.claim([desk.ask() for _ in range(PER_ROUND)])
    yield (
        "finish, given back for a retry",
        desk.microseconds("evalsha", lambda: desk.finish(again, "T")),
    )
    keys = [f"lock-{next(desk.numbers)}" for _ in range(PER_ROUND)]
    yield "by hand, taken", desk.microseconds("set", lambda: _take(desk.client, keys))
    yield "by hand, released", desk.microseconds("evalsha", lambda: _release(desk.client, keys))


@benchmark("server, memory")
def memory() -> Iterator[Row]:
    with _desk() as desk:
        began = _used(desk.client)
        leases: list[Lease] = []
        for _ in range(IN_MEMORY // PER_ROUND):
            leases += desk.claim([desk.ask() for _ in range(PER_ROUND)])
        running = _used(desk.client)
        for first in range(0, IN_MEMORY, PER_ROUND):
            desk.finish(leases[first : first + PER_ROUND])
        finished = _used(desk.client)
        keys = [f"key-{number:08}" for number in range(IN_MEMORY)]
        _take(desk.client, keys)
        by_hand = _used(desk.client) - finished
        yield Row(
            "a job that runs: record, lease, key record",
            Sample.exactly((running - began) / IN_MEMORY),
            "bytes",
            peer=PEER,
            peer_value=Sample.exactly(by_hand / IN_MEMORY),
        )
        yield Row(
            f"a job that is done, its value of {len(RESULT)} bytes included",
            Sample.exactly((finished - began) / IN_MEMORY),
            "bytes",
        )


def _end(lease: Lease, outcome: Outcome) -> End:
    return End(
        ask=lease.ask,
        token=lease.token,
        fence=lease.fence,
        outcome=outcome,
        recorded=False,
        result=RESULT if outcome == "D" else b'{"type":"X"}',
        header=b"%016d|" % lease.fence,
        value_ttl_seconds=600.0 if outcome == "D" else 0.0,
    )


def _sibling(ask: Ask, number: int) -> Ask:
    return Ask(
        name=ask.name,
        id=f"{ask.id}-{number}",
        key=ask.key,
        payload_hash=ask.payload_hash,
        token=new_token(),
        terms=TERMS,
    )


def _take(client: Redis, keys: Sequence[str]) -> None:
    pipeline = client.pipeline(transaction=False)
    for key in keys:
        pipeline.set(key, "t" * 32, nx=True, px=60_000)
    pipeline.execute()


def _release(client: Redis, keys: Sequence[str]) -> None:
    sha = client.script_load(_RELEASE)
    pipeline = client.pipeline(transaction=False)
    for key in keys:
        pipeline.evalsha(sha, 1, key, "t" * 32)
    pipeline.execute()


def _used(client: Redis) -> int:
    return int(client.info("memory")["used_memory"])


@contextmanager
def _desk() -> Iterator[Desk]:
    with started_valkey() as server:
        desk = Desk(Redis(port=server.port))
        warm_up = desk.claim([desk.ask() for _ in range(PER_ROUND)])
        desk.renew(warm_up)
        desk.finish(warm_up)
        yield desk
        desk.shared.close()
