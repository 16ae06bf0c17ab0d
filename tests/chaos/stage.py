"""Directed scenarios' tools: a rig of its own for each, cues to wait for, and complaints."""

from __future__ import annotations

import itertools
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from tests.chaos.rig import Rig
from tests.chaos.wires import FORWARD, Deed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from infra.local.environment import Environment
    from infra.local.logs import LogRecord
    from infra.local.relay import Address
    from tests.chaos.deployment import Deployment
    from tests.chaos.rig import Tenant
    from tests.chaos.wires import Line

_CUE_SECONDS: Final = 60.0
_suffixes = itertools.count(1)


class Stage:
    """Opens rigs that share one server of AWS interfaces, and nothing else."""

    def __init__(self, aws_address: Address, *, mutant: str = "") -> None:
        self._aws_address = aws_address
        self.mutant = mutant

    def with_mutant(self, mutant: str) -> Stage:
        """Answer the same stage with one protection of the library taken out."""
        return Stage(self._aws_address, mutant=mutant)

    def rig(self, deployment: Deployment, script: Prompter | None = None) -> Rig:
        """Make a rig, to be entered."""
        named = replace(deployment, suffix=f"-{next(_suffixes)}", mutant=self.mutant)
        return Rig(named, script=script, aws_address=self._aws_address)


class Prompter:
    """Does something once, when a window opens that `wanted` accepts."""

    def __init__(self, window: str, act: Callable[[Tenant], Deed], *, times: int = 1) -> None:
        self._window = window
        self._act = act
        self.left = times
        self.met = 0

    def meet(self, windows: tuple[str, ...], line: Line) -> Deed:
        """Act on a parcel of that window."""
        if self._window not in windows or self.left <= 0:
            return FORWARD
        self.left -= 1
        self.met += 1
        tenant: Tenant = line.owner  # type: ignore[assignment]  # wires know owners as objects
        return self._act(tenant)


class Complaints:
    """What went wrong in a scenario; empty where every promise was kept."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def unless(self, kept: object, text: str) -> None:
        """Complain unless something is so."""
        if not kept:
            self.texts.append(text)

    def differ(self, expected: object, actual: object, text: str) -> None:
        """Complain if two things are not the same."""
        if expected != actual:
            self.texts.append(f"{text}: expected {expected}, got {actual}")


class Starts:
    """Waits for the lines that bodies write as they start; may freeze the first one's container."""

    def __init__(self, rig: Rig, *, freeze_first: bool = False) -> None:
        self._rig = rig
        self._freeze_first = freeze_first
        self.thaw: Callable[[], None] = lambda: None
        self._changed = threading.Condition()
        self.lines: list[Mapping[str, Any]] = []  # Any: a job's own line
        rig.logs.listen(self._hear)

    def wait(self, count: int, *, within_seconds: float = _CUE_SECONDS) -> bool:
        """Wait until `count` bodies have started."""
        with self._changed:
            return self._changed.wait_for(lambda: len(self.lines) >= count, within_seconds)

    def _hear(self, record: LogRecord, environment: Environment) -> None:
        if record.fields.get("chaos") != "start":
            return
        with self._changed:
            self.lines.append({**record.fields, "request_id": record.request_id})
            if self._freeze_first and len(self.lines) == 1:
                self.thaw = self._rig.tenant_of(environment).freeze()
            self._changed.notify_all()


def message(name: str, job_id: str, **payload: object) -> str:
    """Write a message."""
    return json.dumps({"sekali": 1, "id": job_id, "name": name, "payload": payload})


def slot_dump(rig: Rig) -> dict[bytes, object]:
    """Read all that the cache holds, but for times to live and runs that are measured."""
    client: Any = rig.nodes.primary.client  # Any: its replies have as many types as commands
    found: dict[bytes, object] = {}
    for key in client.scan_iter():
        kind = client.type(key)
        if kind == b"hash":
            found[key] = client.hgetall(key)
        elif kind == b"string":
            found[key] = client.get(key)
    return {key: value for key, value in found.items() if b"runs" not in key}


def side_by_side(
    stage: Stage, *scenarios: Callable[[Stage], list[str]], at_once: int = 2
) -> dict[Callable[[Stage], list[str]], list[str]]:
    """Run scenarios, which mostly wait, at the same time; answer the complaints of each."""
    with ThreadPoolExecutor(at_once) as pool:
        found = pool.map(lambda scenario: scenario(stage), scenarios)
        return dict(zip(scenarios, found, strict=True))
