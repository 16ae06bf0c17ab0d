"""Measure a cold start under the genuine Lambda runtime client, and take it apart.

Both functions run in turns as they are deployed (see `cold_starts`), without tracing. The whole is
from the start of the process to the answer of its first job, whose own time is nothing. INIT, in
it, is up to the moment at which the runtime client asks for work; what a function without any
import takes is told apart, because nobody can save it. Neither side writes a table.
"""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING, Any, Final

from infra import bytecode, vendor
from infra.local.workspace import workspace
from infra.platforms import aws_platform
from tests.benchmarks.cold_starts import LIBRARY, Import, by_package, functions
from tests.benchmarks.harness import Row, Sample, benchmark, interleaved
from tests.conftest import started_valkey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from tests.benchmarks.cold_starts import Functions, Start

OURS: Final = "cold_sekali"
THEIRS: Final = "cold_by_hand"
NOTHING: Final = "cold_nothing"
PEER: Final = "made by hand"
ROUNDS: Final = 11
UNCOMPILED_ROUNDS: Final = 3
PROFILED_ROUNDS: Final = 5
DEAREST: Final = 6
NOTICEABLE_MS: Final = 1.0
MEBIBYTE: Final = 1024 * 1024
MOST_MEBIBYTES: Final = 40
RATIO: Final = 0.7


@benchmark("cold start")
def cold_start() -> Iterator[Row]:
    with started_valkey() as server, functions(server.port) as made:
        timed = _started(made, ROUNDS)
        yield from _times(timed)
        yield from _memory(timed)
        yield from _imports(made)
        yield from _weights(made)
        made.without_bytecode()
        bare = _started(made, UNCOMPILED_ROUNDS)
    yield from _times_without_bytecode(bare)


def _started(made: Functions, rounds: int) -> dict[str, list[Start]]:
    """Start each function in turns; the first of each, which warms the disk up, does not count."""
    starts: dict[str, list[Start]] = {name: [] for name in (OURS, THEIRS, NOTHING)}

    def contestant(name: str) -> Callable[[], None]:
        return lambda: starts[name].append(made.start(f"{name}.handler"))

    interleaved([contestant(name) for name in starts], rounds=rounds)
    return {name: ones[1:] for name, ones in starts.items()}


def _sample(starts: Sequence[Start], what: Callable[[Start], float]) -> Sample:
    return Sample(tuple(what(one) for one in starts))


def _beside(
    name: str,
    starts: dict[str, list[Start]],
    what: Callable[[Start], float],
    *,
    unit: str = "ms",
    ratio_at_most: float | None = None,
) -> Row:
    ours, theirs = _sample(starts[OURS], what), _sample(starts[THEIRS], what)
    return Row(name, ours, unit, peer=PEER, peer_value=theirs, ratio_at_most=ratio_at_most)


def _floor_ms(starts: dict[str, list[Start]]) -> float:
    return _sample(starts[NOTHING], lambda one: one.init_ms).median


def _times(starts: dict[str, list[Start]]) -> Iterator[Row]:
    floor = _floor_ms(starts)
    yield _beside(
        "INIT: import and build of the worker",
        starts,
        lambda one: one.init_ms - floor,
        ratio_at_most=RATIO,
    )
    yield _beside(
        "process start to first finished job", starts, lambda one: one.whole_ms, ratio_at_most=RATIO
    )
    yield Row(
        "a function that imports nothing: interpreter and runtime client",
        _sample(starts[NOTHING], lambda one: one.whole_ms),
        "ms",
    )
    yield _beside("first job, INIT being over", starts, lambda one: one.whole_ms - one.init_ms)


def _times_without_bytecode(starts: dict[str, list[Start]]) -> Iterator[Row]:
    """Tell what bytecode saves: what both sides take where nothing is compiled beforehand."""
    floor = _floor_ms(starts)
    yield _beside("INIT, layers without bytecode", starts, lambda one: one.init_ms - floor)
    yield _beside(
        "process start to first finished job, layers without bytecode",
        starts,
        lambda one: one.whole_ms,
    )


def _memory(starts: dict[str, list[Start]]) -> Iterator[Row]:
    for at, moment in enumerate(("INIT", "the first job")):
        yield _beside(
            f"resident memory after {moment}",
            starts,
            lambda one, at=at: one.resident_mib[at],  # type: ignore[misc]  # bound to this turn
            unit="MiB",
        )


def _imports(made: Functions) -> Iterator[Row]:
    """Tell where the time of the imports goes; Python measures it, which takes time itself."""
    ours, theirs = (_profiled(made, name) for name in (OURS, THEIRS))
    for at, moment in enumerate(("INIT", "the first job")):
        mine, peers = by_package(ours[at]), by_package(theirs[at])
        for package in sorted({**mine, **peers}, key=lambda one: -_greater(one, mine, peers)):
            if _greater(package, mine, peers) >= NOTICEABLE_MS:
                yield Row(
                    f"imports by {moment}: {package}",
                    Sample.exactly(mine.get(package, 0.0)),
                    "ms",
                    peer=PEER,
                    peer_value=Sample.exactly(peers.get(package, 0.0)),
                )
    yield from _dearest("dearest by itself", ours[0], lambda one: one.own)
    yield from _dearest("dearest with what it imports first", ours[0], lambda one: one.whole)


def _profiled(made: Functions, name: str) -> tuple[list[Import], list[Import]]:
    """Return the imports of INIT and of the first job, each at its quickest of several starts."""
    quickest: tuple[dict[str, Import], dict[str, Import]] = ({}, {})
    for _ in range(PROFILED_ROUNDS):
        start = made.start(f"{name}.handler", PYTHONPROFILEIMPORTTIME="1")
        for found, imports in zip(quickest, start.imports, strict=True):
            for one in imports:
                before = found.get(one.name, one)
                found[one.name] = Import(
                    one.name, min(before.own, one.own), min(before.whole, one.whole)
                )
    return list(quickest[0].values()), list(quickest[1].values())


def _greater(package: str, *sides: dict[str, float]) -> float:
    return max(side.get(package, 0.0) for side in sides)


def _dearest(
    name: str, imports: Sequence[Import], cost: Callable[[Import], float]
) -> Iterator[Row]:
    for one in sorted(imports, key=cost, reverse=True)[:DEAREST]:
        yield Row(f"INIT, {name}: {one.name}", Sample.exactly(cost(one)), "ms")


def _weights(made: Functions) -> Iterator[Row]:
    """Tell how many modules there are, and what they take of memory."""
    told = {name: made.start("cold_told.handler", TOLD=name).told for name in (OURS, THEIRS)}
    for at, moment in enumerate(("INIT", "the first job")):
        mine, peers = told[OURS][at], told[THEIRS][at]
        yield Row(
            f"modules imported after {moment}",
            Sample.exactly(mine["modules"]),
            "modules",
            peer=PEER,
            peer_value=Sample.exactly(peers["modules"]),
        )
        mine, peers = _mebibytes(mine), _mebibytes(peers)
        yield Row(
            f"memory of modules imported by {moment}",
            Sample.exactly(sum(mine.values())),
            "MiB",
            peer=PEER,
            peer_value=Sample.exactly(sum(peers.values())),
        )
    sums: dict[str, float] = {}
    for name, size in _mebibytes(told[OURS][0]).items():
        package = name.partition(".")[0]
        sums[package] = sums.get(package, 0.0) + size
    for package in sorted(sums, key=lambda one: -sums[one])[:DEAREST]:
        yield Row(f"INIT, memory of {package}", Sample.exactly(sums[package]), "MiB")


def _mebibytes(told: dict[str, Any]) -> dict[str, float]:  # Any: JSON of the handler
    return {name: size / MEBIBYTE for name, size in told["taken"].items()}


@benchmark("layers")
def layers() -> Iterator[Row]:
    """Add up the library and the third-party packages for AWS, as they are unzipped.

    Their bytecode is of this Python: that of another is of one size.
    """
    with workspace() as folder:
        layer = folder / "python"
        shutil.copytree(vendor.install(aws_platform()) / "python", layer)
        shutil.copytree(LIBRARY, layer / "sekali", ignore=shutil.ignore_patterns("__pycache__"))
        sources = _size(layer)
        bytecode.add(layer, interpreter=sys.executable)
        whole = _size(layer)
        sizes = {entry.name: _size(entry) for entry in layer.iterdir()}
    yield Row(
        "both layers, unzipped",
        Sample.exactly(whole / MEBIBYTE),
        "MiB",
        at_most=MOST_MEBIBYTES,
    )
    yield Row("of it, bytecode", Sample.exactly((whole - sources) / MEBIBYTE), "MiB")
    for name in sorted(sizes, key=lambda one: -sizes[one]):
        if sizes[name] >= MEBIBYTE / 20:
            yield Row(f"of it, {name}", Sample.exactly(sizes[name] / MEBIBYTE), "MiB")


def _size(entry: Path) -> int:
    files = entry.rglob("*") if entry.is_dir() else [entry]
    return sum(file.stat().st_size for file in files if file.is_file())
