"""Measure what is the library's own in place of a library: its connections and its dataclasses."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from redis import Redis

from sekali import light_dataclass
from sekali.links import Links
from tests.benchmarks.harness import Row, benchmark, interleaved, repeated
from tests.conftest import started_valkey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SIZES: Final = (1, 10, 100)
FLUSHES: Final = 20
CLASSES: Final = 20
INSTANCES: Final = 2_000
ROUNDS: Final = 100
MICROSECONDS: Final = 1e6


@benchmark("library: connection")
def own_connection() -> Iterator[Row]:
    """Send and read the same GETs over a connection of ours, and over one of redis-py."""
    with started_valkey() as server, Redis(port=server.port) as client:
        client.set("k", "a value of some length")
        links = Links("127.0.0.1", server.port, socket_timeout=10.0)
        link, wrapped = links.get_connection(), client.connection_pool.get_connection()
        for size in SIZES:
            commands = [("GET", "k")] * size

            def ours(commands: list[Any] = commands) -> None:
                link.send(commands)
                link.read(len(commands))

            def theirs(commands: list[Any] = commands) -> None:
                wrapped.send_packed_command(wrapped.pack_commands(commands), check_health=False)
                for _ in commands:
                    wrapped.read_response()

            own, peer = interleaved(
                [repeated(one, times=FLUSHES) for one in (ours, theirs)], rounds=ROUNDS
            )
            yield Row(
                f"flush of {size} commands",
                own.times(MICROSECONDS),
                "µs",
                peer="redis-py's connection",
                peer_value=peer.times(MICROSECONDS),
            )
        client.connection_pool.release(wrapped)
        links.release(link)
        links.disconnect()


@benchmark("library: dataclasses")
def own_dataclasses() -> Iterator[Row]:
    """Define a class of six fields, frozen and with slots, and make an instance of one."""
    kinds = (light_dataclass.dataclass, dataclasses.dataclass)
    defining = [partial(_defined, by) for by in kinds]
    making = [partial(_defined(by), 1, 2, 3, 4, 5) for by in kinds]
    for name, contestants, times in (
        ("define a frozen class with slots", defining, CLASSES),
        ("make an instance of it", making, INSTANCES),
    ):
        own, peer = interleaved([repeated(one, times=times) for one in contestants], rounds=ROUNDS)
        yield Row(
            name,
            own.times(MICROSECONDS),
            "µs",
            peer="dataclasses",
            peer_value=peer.times(MICROSECONDS),
        )


def _defined(by: Callable[..., Any]) -> Any:  # Any: a class that is made here
    @by(frozen=True, slots=True)
    class Made:
        one: int
        two: int
        three: int
        four: int
        five: int
        six: int = 6

    return Made
