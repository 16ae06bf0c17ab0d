"""Start functions under the genuine Lambda runtime client, cold, and take apart what they import.

A function's process sees its own code, the layers as they are deployed to this machine, and what
the runtime brings: nothing of the developer's environment. The layers hold bytecode as they are
deployed with it, and so does what only the hand-made one needs, as if its builder had done the
same; what Lambda pays where there is none is a measurement of its own.

    start ── the runtime client, imports, the worker ──> INIT is over ── first event ──> answer
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from infra import bytecode, vendor
from infra.local import runtime_folder
from infra.local.environment import Environment
from infra.local.processes import Nursery
from infra.local.round_trips import RoundTrips
from infra.local.template import Function
from infra.local.workspace import workspace
from infra.platforms import host_platform
from tests.benchmarks.loads import Load

if TYPE_CHECKING:
    from collections.abc import Iterator

    from infra.local.environment import LogLine

ROOT: Final = Path(__file__).parents[2]
LIBRARY: Final = ROOT / "layers" / "sekali" / "python" / "sekali"
HANDLERS: Final = Path(__file__).with_name("assets")
TIMEOUT_SECONDS: Final = 30.0
MEMORY_MIB: Final = 512

_LINE: Final = re.compile(r"import time:\s+(\d+) \|\s+(\d+) \|( +)(\S+)")


@dataclass(frozen=True, slots=True)
class Import:
    """One module: its own time, and with what it imported first itself, in milliseconds."""

    name: str
    own: float
    whole: float

    @property
    def package(self) -> str:
        """Return where it comes from; all of the standard library counts as one."""
        top = self.name.partition(".")[0]
        if top in sys.stdlib_module_names or top.startswith("_"):
            return "the standard library"
        return top


@dataclass(slots=True)
class Start:
    """What one cold start told."""

    init_ms: float = 0.0
    whole_ms: float = 0.0
    resident_mib: tuple[float, float] = (0.0, 0.0)
    told: list[dict[str, Any]] = field(default_factory=list)  # Any: JSON of the handler's own
    imports: tuple[list[Import], list[Import]] = field(default_factory=lambda: ([], []))


class Doors:
    """Lead to the cache, and to nothing of AWS; nothing is counted on the way."""

    def __init__(self, cache: tuple[str, int]) -> None:
        self.cache = cache
        self.aws_endpoint = "http://127.0.0.1:9"
        self.round_trips = RoundTrips()

    def close(self) -> None:
        """Nothing was opened."""


class Functions:
    """The functions that are compared, in folders as Lambda would unpack them."""

    def __init__(self, folder: Path, nursery: Nursery, cache_port: int) -> None:
        self._folder = folder
        self._nursery = nursery
        self._cache_port = cache_port
        self._numbers = iter(range(1, 1_000_000))
        self._loads: dict[str, Load] = {}
        self._runtime = runtime_folder.build(folder / "runtime")
        self._layers = (self._library(), self._packages())
        self._code = self._handlers()
        # What the runtime brings is compiled there; here it is, where it is imported first.
        subprocess.run(
            [sys.executable, "-S", "-s", "-c", "import awslambdaric.bootstrap, boto3"],
            env={"PYTHONPATH": str(self._runtime)},
            check=True,
        )

    def _library(self) -> Path:
        layer = self._folder / "library"
        shutil.copytree(
            LIBRARY, layer / "python" / "sekali", ignore=shutil.ignore_patterns("__pycache__")
        )
        bytecode.add(layer, interpreter=sys.executable)
        return layer

    def _packages(self) -> Path:
        layer = self._folder / "packages"
        shutil.copytree(vendor.install(host_platform()), layer)
        bytecode.add(layer, interpreter=sys.executable)
        return layer

    def _handlers(self) -> Path:
        """Bring both handlers, and what only the hand-made one needs."""
        code = self._folder / "code"
        benchmarks = code / "tests" / "benchmarks"
        benchmarks.mkdir(parents=True)
        for name in ("cold_by_hand", "cold_nothing", "cold_sekali", "cold_told"):
            shutil.copy(HANDLERS / f"{name}.py", code)
        shutil.copy(Path(__file__).with_name("hand_made.py"), benchmarks)
        needed = find_spec("cachetools")
        if needed is None or needed.origin is None:
            raise LookupError("cachetools is not installed")
        shutil.copytree(Path(needed.origin).parent, code / "cachetools")
        # Not the handlers themselves: they lie in the function's code, which is deployed without.
        for package in (benchmarks, code / "cachetools"):
            bytecode.add(package, interpreter=sys.executable)
        return code

    def start(self, handler: str, **variables: str) -> Start:
        """Start one environment, let it take its first job, and end it."""
        number = next(self._numbers)
        load = self._loads.setdefault(handler, Load("cold", name=handler))
        event = json.dumps(load.batch(1)).encode()
        lines: list[LogLine] = []
        doors: Any = Doors(("127.0.0.1", self._cache_port))  # Any: it has less than the genuine
        began = time.perf_counter()
        environment = Environment(
            self._function(handler, variables),
            number=number,
            nursery=self._nursery,
            doors=doors,
            runtime=self._runtime,
            folder=self._folder / f"environment-{number}",
            on_line=lines.append,
        )
        try:
            environment.init()
            initialised = time.perf_counter()
            at_init = _resident_mib(doors.round_trips.client_pid)
            resumed = time.perf_counter()
            outcome = environment.invoke(event)
            done = time.perf_counter()
            if outcome.kind != "answered" or outcome.payload != b'{"batchItemFailures": []}':
                told = "\n".join(line.text for line in lines[-40:])
                raise RuntimeError(f"{handler} {outcome.kind}: {outcome.payload!r}\n{told}")
            resident = at_init, _resident_mib(doors.round_trips.client_pid)
        finally:
            environment.close()
        return Start(
            init_ms=(initialised - began) * 1000,
            whole_ms=(done - began - (resumed - initialised)) * 1000,
            resident_mib=resident,
            told=[json.loads(line.text) for line in lines if line.text.startswith('{"cold"')],
            imports=_imports(lines),
        )

    def _function(self, handler: str, variables: dict[str, str]) -> Function:
        return Function(
            logical_id=handler,
            name=handler,
            handler=handler,
            runtime=f"python{sys.version_info[0]}.{sys.version_info[1]}",
            timeout_seconds=TIMEOUT_SECONDS,
            memory_mib=MEMORY_MIB,
            variables={
                "POWERTOOLS_TRACE_DISABLED": "true",
                "SEKALI_CACHE_URL": f"valkey://127.0.0.1:{self._cache_port}",
                "SEKALI_DURABLE_MODE": "redis",
                "SEKALI_QUEUE_URL": "http://127.0.0.1:9/queue/jobs",
                "SEKALI_DEAD_LETTER_QUEUE_URL": "http://127.0.0.1:9/queue/dead",
                "SEKALI_PARTIAL_BATCH": "true",
                **variables,
            },
            code=self._code,
            layers=self._layers,
        )

    def without_bytecode(self) -> None:
        """Be as where a layer brings none: every start compiles what it imports."""
        for folder in (*self._layers, self._code):
            for cache in folder.rglob("__pycache__"):
                shutil.rmtree(cache)


@contextmanager
def functions(cache_port: int) -> Iterator[Functions]:
    """Unpack the functions for the block; no process and no file of theirs outlives it."""
    nursery = Nursery()
    with workspace() as folder:
        try:
            yield Functions(folder, nursery, cache_port)
        finally:
            nursery.close()


def by_package(imports: list[Import]) -> dict[str, float]:
    """Add up the modules' own times, in milliseconds, by where they come from."""
    sums: defaultdict[str, float] = defaultdict(float)
    for one in imports:
        sums[one.package] += one.own
    return dict(sums)


def _imports(lines: list[LogLine]) -> tuple[list[Import], list[Import]]:
    """Read what Python tells of its imports, apart for INIT and for the first event."""
    found: tuple[list[Import], list[Import]] = ([], [])
    for line in lines:
        if told := _LINE.match(line.text):
            one = Import(told[4], int(told[1]) / 1000, int(told[2]) / 1000)
            found[bool(line.request_id)].append(one)
    return found


def _resident_mib(pid: int | None) -> float:
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    kibibytes = re.search(r"^VmRSS:\s+(\d+) kB", status, re.MULTILINE)
    return int(kibibytes[1]) / 1024 if kibibytes else 0.0
