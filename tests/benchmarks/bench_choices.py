"""Measure small choices of the library beside what was not chosen; each docstring names its row."""

from __future__ import annotations

import gc
import json
import re
import time
import zlib
from typing import TYPE_CHECKING, Any, Final

import hiredis
from redis import Redis

from sekali import bodies, codec
from sekali.answers import new_token
from sekali.calls import Call
from sekali.claims import Claims
from sekali.clock import SystemClock
from sekali.invalidation import MOST_MISSED_ENTRIES
from sekali.lifetimes import Lifetime
from sekali.light_dataclass import dataclass
from sekali.links import Links
from tests.benchmarks.harness import Row, Sample, benchmark, interleaved, repeated
from tests.cache_kit import Fleet
from tests.conftest import started_valkey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Contestant = Callable[[], object]

ROUNDS: Final = 30
MICROSECONDS: Final = 1e6
MILLISECONDS: Final = 1e3
CHOSEN_LEVEL: Final = 1
DEFAULT_LEVEL: Final = 6
# All of XML's characters, negated: what `bodies` lists is the rest of them.
NEGATED: Final = "[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
RESULT: Final = {"n": 7, "answer": 42}
PACK: Any = hiredis.pack_command  # Any: its types know of one argument only
REPORT: Final = {
    "carrier": "UA",
    "worst": [{"route": f"EWR-{n:03}", "flights": 17 * n, "mean": n / 7} for n in range(400)],
}


@benchmark("library: choices")
def choices() -> Iterator[Row]:
    """Take both ways of each choice in turns."""
    yield from _patterns()
    yield from _json()
    yield from _calls()
    yield from _claims()
    yield from _long_replies()


def _row(
    name: str, ours: Contestant, peer: str, theirs: Contestant, *, times: int, unit: str = "µs"
) -> Row:
    own, other = (
        sample.times(MICROSECONDS if unit == "µs" else MILLISECONDS)
        for sample in interleaved(
            [repeated(one, times=times) for one in (ours, theirs)], rounds=ROUNDS
        )
    )
    return Row(name, own, unit, peer=peer, peer_value=other)


def _patterns() -> Iterator[Row]:
    def compiling(pattern: str) -> Contestant:
        def compiled() -> None:
            re.purge()
            re.compile(pattern)

        return compiled

    yield _row(
        "compile a pattern of what XML does not take",
        compiling(bodies.NOT_XML.pattern),
        "of what it takes, negated",
        compiling(NEGATED),
        times=5,
    )


def _json() -> Iterator[Row]:
    def chosen(*, looks: bool) -> Contestant:
        return lambda: codec._compact(RESULT, {} if looks else None)  # noqa: SLF001

    yield _row(
        "write a small value that is known to end",
        chosen(looks=False),
        "looking for circles",
        chosen(looks=True),
        times=2_000,
    )
    text = json.dumps(REPORT).encode()
    at, beside = f"level {CHOSEN_LEVEL}", f"level {DEFAULT_LEVEL}"
    yield _row(
        f"compress {len(text):,} bytes, {at}",
        lambda: zlib.compress(text, CHOSEN_LEVEL),
        beside,
        lambda: zlib.compress(text, DEFAULT_LEVEL),
        times=10,
    )
    yield Row(
        f"the same, {at}",
        Sample.exactly(len(zlib.compress(text, CHOSEN_LEVEL))),
        "bytes",
        peer=beside,
        peer_value=Sample.exactly(len(zlib.compress(text, DEFAULT_LEVEL))),
    )


def _calls() -> Iterator[Row]:
    @dataclass(frozen=True, slots=True)
    class Frozen:
        key: str
        scoped: str
        loader: Any  # Any: as in Call
        lifetime: Lifetime
        tags: Any = ()
        packing: Any = None
        level: Any = "per_invocation"
        wait_seconds: Any = None
        on_timeout: Any = "load"
        refresh: Any = "now"

    lifetime = Lifetime(ttl_seconds=60)
    yield _row(
        "make what a look-up asks for, a tuple",
        lambda: Call("k", "~/k", str, lifetime),
        "a frozen class",
        lambda: Frozen("k", "~/k", str, lifetime),
        times=2_000,
    )


def _claims() -> Iterator[Row]:
    box = Fleet("redis://127.0.0.1:9").box(SystemClock())
    claims = Claims(box.container.keyspace, "bench").loads(box.container.default_terms())
    token, wall = new_token(), time.time()
    yield _row(
        "write the claim of a load into a form",
        lambda: claims.packed("k", token, wall),
        "command and hiredis.pack_command",
        lambda: PACK(claims.command("k", token).args),
        times=500,
    )


def _long_replies() -> Iterator[Row]:
    """Read a log of as many invalidations as a thawed container applies."""
    with started_valkey() as server, Redis(port=server.port) as client:
        with client.pipeline(transaction=False) as pipe:
            for n in range(MOST_MISSED_ENTRIES):
                pipe.xadd("log", {"kind": "k", "name": f"flights/{n}", "mark": "0123456789abcdef"})
            pipe.execute()
        links = Links("127.0.0.1", server.port, socket_timeout=10.0)
        link = links.get_connection()
        plain = ("XRANGE", "log", "-", "+")
        script = ("EVAL", "return redis.call('XRANGE', KEYS[1], '-', '+')", "1", "log")

        def read(command: tuple[str, ...], *, collects: bool = False) -> Contestant:
            def reply() -> None:
                # The harness keeps the collector off, as the library does for a long reply.
                if collects:
                    gc.enable()
                link.send([command])
                link.read(1)
                gc.disable()

            return reply

        name = f"read {MOST_MISSED_ENTRIES:,} invalidations"
        for peer, theirs in (
            ("through a script", read(script)),
            ("while garbage is looked for", read(plain, collects=True)),
            ("as redis-py reads them", lambda: client.xrange("log")),
        ):
            yield _row(name, read(plain), peer, theirs, times=1, unit="ms")
        links.release(link)
        links.disconnect()
