"""Measure a cold start: processes that import, build the worker, and take their first job.

Both sides run in fresh processes in turns, without tracing. INIT is what happens before the first
event: imports and the build of the worker. The whole is from the start of the process to the first
finished job, less the job's own time, which is nothing here. Neither side writes a table.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.benchmarks.harness import Row, Sample, benchmark, interleaved
from tests.benchmarks.loads import Load
from tests.conftest import started_valkey

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).parents[2]
ROUNDS: Final = 7
MEBIBYTE: Final = 1024 * 1024
MOST_MEBIBYTES: Final = 40

_OURS: Final = """
from sekali import Worker
worker = Worker("bench", hooks=[])

@worker.job("square", key="{payload[n]}", ttl_seconds=60)
def square(job):
    return {"n": job.payload["n"], "answer": 42}

handler = worker.handler
"""
_THEIRS: Final = """
import os
from tests.benchmarks.hand_made import HandMade
handler = HandMade(os.environ["SEKALI_CACHE_URL"], lambda payload: {"n": payload["n"]}).handler
"""
_PROGRAM: Final = """
import time
began = time.perf_counter()
{module}
ready = time.perf_counter()
import json, os, resource, sys
from tests.benchmarks.loads import Context
assert handler(json.loads(os.environ["EVENT"]), Context()) == {{"batchItemFailures": []}}
done = time.perf_counter()
print(json.dumps({{
    "init": ready - began,
    "first": done - ready,
    "modules": len(sys.modules),
    "kibibytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
}}))
"""


@benchmark("cold start")
def cold_start() -> Iterator[Row]:
    with started_valkey() as server:
        url = f"redis://127.0.0.1:{server.port}"
        ours, theirs = _Starts(_OURS, url, "ours"), _Starts(_THEIRS, url, "theirs")
        whole = interleaved([ours.start, theirs.start], rounds=ROUNDS)
    peer = "made by hand"
    yield _milliseconds("INIT", ours.of("init"), theirs.of("init"), at_most=0.7)
    yield _milliseconds("process start to first finished job", *whole, at_most=0.7)
    yield Row(
        "memory after the first job",
        ours.of("kibibytes").times(1 / 1024),
        "MiB",
        peer=peer,
        peer_value=theirs.of("kibibytes").times(1 / 1024),
    )
    yield Row(
        "modules imported after the first job",
        ours.of("modules"),
        "modules",
        peer=peer,
        peer_value=theirs.of("modules"),
    )


@benchmark("layers")
def layers() -> Iterator[Row]:
    """Add up the library and the third-party packages for AWS, as they are unzipped."""
    from infra.platforms import aws_platform
    from infra.vendor import install

    vendored = install(aws_platform())
    size = _size(vendored) + _size(ROOT / "layers" / "sekali")
    yield Row(
        "both layers, unzipped", Sample.exactly(size / MEBIBYTE), "MiB", at_most=MOST_MEBIBYTES
    )


class _Starts:
    """Start processes of one kind and keep what they say of themselves."""

    def __init__(self, module: str, cache_url: str, name: str) -> None:
        self._program = _PROGRAM.format(module=module)
        self._load = Load("cold", name=name)
        self._environment = {
            "PYTHONPATH": f"{ROOT / 'layers' / 'sekali' / 'python'}:{ROOT}",
            "POWERTOOLS_TRACE_DISABLED": "true",
            "AWS_DEFAULT_REGION": "eu-west-1",
            "SEKALI_CACHE_URL": cache_url,
            "SEKALI_DURABLE_MODE": "redis",
            "SEKALI_QUEUE_URL": "http://127.0.0.1:1/queue/jobs",
            "SEKALI_DEAD_LETTER_QUEUE_URL": "http://127.0.0.1:1/queue/dead",
            "SEKALI_PARTIAL_BATCH": "true",
        }
        self.told: list[dict[str, float]] = []

    def start(self) -> None:
        """Start one and wait for its end."""
        event = json.dumps(self._load.batch(1))
        answer = subprocess.run(
            [sys.executable, "-c", self._program],
            env=self._environment | {"EVENT": event},
            check=True,
            capture_output=True,
            text=True,
        )
        self.told.append(json.loads(answer.stdout.splitlines()[-1]))

    def of(self, what: str) -> Sample:
        """Return what the processes said, without the first, which warmed the disk up."""
        return Sample(tuple(one[what] for one in self.told[1:]))


def _milliseconds(name: str, ours: Sample, theirs: Sample, *, at_most: float) -> Row:
    return Row(
        name,
        ours.times(1000),
        "ms",
        peer="made by hand",
        peer_value=theirs.times(1000),
        ratio_at_most=at_most,
    )


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
