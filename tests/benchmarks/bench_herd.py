"""Let a real herd ask one real Valkey: 1,000 containers in many processes.

They are warm: each has asked for a key of its own before, so that nobody imports or connects while
the others wait for a core. Commands are counted as the server does, those inside scripts included.
The peer looks, takes redis-py's lock, looks again and loads, in processes of the same kind.
"""

from __future__ import annotations

import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from typing import TYPE_CHECKING, Any, Final

from redis import Redis

from tests.benchmarks.harness import Row, Sample, benchmark
from tests.benchmarks.herd import LOADS, Kind, Orders, Start, obey, stand
from tests.conftest import started_valkey

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

CLAIMANTS: Final = 1_000
# Threads of one process wait for each other's turn at its interpreter, as containers do not: with a
# hundred of them each takes four times the processor time.
CONTAINERS_PER_PROCESS: Final = 25
LOAD_SECONDS: Final = 0.5
HOT_KEYS: Final = 200
FLUSH_CONTAINERS: Final = 100
FLUSH_LOAD_SECONDS: Final = 0.2
FLUSH_RUN_SECONDS: Final = 12.0
FLUSHED_AFTER_SECONDS: Final = 6.0
PEER: Final = "redis-py Lock by hand"
KINDS: Final[tuple[Kind, ...]] = ("sekali", "by hand")


@benchmark("herd, one cold key")
def one_cold_key() -> Iterator[Row]:
    told = {kind: _cold(kind) for kind in KINDS}
    yield _row("loads for 1,000 containers", told, "loads", "loads", at_most=1)
    yield _row("commands, those of scripts included", told, "commands", "per container")
    note = f"the containers are warm, {CONTAINERS_PER_PROCESS} to a process"
    yield _row("longest wait above the load", told, "longest", "s", at_most=2, note=note)
    yield _row("median wait above the load", told, "median", "s")


@benchmark("herd, a flush under 200 hot keys")
def flush() -> Iterator[Row]:
    told = {kind: _flushed(kind) for kind in KINDS}
    yield _row("loads after the flush", told, "loads", "loads", at_most=HOT_KEYS)
    yield _row("loads per hot key", told, "per_key", "loads", at_most=1)
    yield _row("from the flush to the last load", told, "calm", "s")
    yield _row("commands of the whole run, the same", told, "commands", "per container and second")


def _row(
    name: str,
    told: Mapping[Kind, Mapping[str, float]],
    what: str,
    unit: str,
    *,
    at_most: float | None = None,
    note: str = "",
) -> Row:
    ours, theirs = (Sample.exactly(told[kind][what]) for kind in KINDS)
    return Row(name, ours, unit, peer=PEER, peer_value=theirs, at_most=at_most, note=note)


def _cold(kind: Kind) -> dict[str, float]:
    with started_valkey() as server:
        client: Any = Redis(port=server.port)  # Any: redis-py's replies vary by client

        def forget_the_warm_up(_: float) -> None:
            client.config_resetstat()

        waited = _herd(
            kind,
            server.port,
            CLAIMANTS,
            load_seconds=LOAD_SECONDS,
            meanwhile=forget_the_warm_up,
        )
        above = [one - LOAD_SECONDS for one in waited]
        return {
            "loads": client.llen(LOADS),
            "commands": client.info("stats")["total_commands_processed"] / CLAIMANTS,
            "longest": max(above),
            "median": Sample(tuple(above)).median,
        }


def _flushed(kind: Kind) -> dict[str, float]:
    with started_valkey() as server:
        client: Any = Redis(port=server.port)  # Any: as above
        flushed_at: list[float] = []

        def flush_it(begins_at: float) -> None:
            client.config_resetstat()
            time.sleep(max(0.0, begins_at + FLUSHED_AFTER_SECONDS - time.time()))
            client.flushall()
            flushed_at.append(time.time())

        _herd(
            kind,
            server.port,
            FLUSH_CONTAINERS,
            load_seconds=FLUSH_LOAD_SECONDS,
            keys=HOT_KEYS,
            seconds=FLUSH_RUN_SECONDS,
            meanwhile=flush_it,
        )
        # The flush dropped the marks of the loads before it as well.
        loads = [float(one) for one in client.lrange(LOADS, 0, -1)]
        return {
            "loads": len(loads),
            "per_key": len(loads) / HOT_KEYS,
            "calm": max(loads) - flushed_at[0],
            "commands": client.info("stats")["total_commands_processed"]
            / FLUSH_CONTAINERS
            / FLUSH_RUN_SECONDS,
        }


def _herd(
    kind: Kind,
    port: int,
    containers: int,
    *,
    load_seconds: float,
    keys: int = 1,
    seconds: float = 0.0,
    meanwhile: Any = None,  # Any: called with the second at which all begin
) -> list[float]:
    processes = max(1, containers // CONTAINERS_PER_PROCESS)
    orders = Orders(
        kind=kind,
        port=port,
        containers=containers // processes,
        load_seconds=load_seconds,
        keys=keys,
        seconds=seconds,
    )
    context = multiprocessing.get_context("spawn")
    start = Start(context, processes)
    with ProcessPoolExecutor(
        processes, mp_context=context, initializer=stand, initargs=(start,)
    ) as pool:
        running = [pool.submit(obey, orders) for _ in range(processes)]
        begins_at = start.order()
        if meanwhile is not None:
            meanwhile(begins_at)
        return [waited for one in running for waited in one.result()]
