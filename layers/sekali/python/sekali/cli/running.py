"""Find the stacks that run on this machine, by the file that each writes into its folder.

A folder is the caller's own and locked while its stack lives; any other is not believed.
"""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sekali.cli.clients import Session
from sekali.cli.faults import Exit, Fault
from sekali.cli.place import FunctionFacts, MappingFacts, Place

if TYPE_CHECKING:
    from collections.abc import Iterator

VERSION: Final = 1
_FOLDERS: Final = "sekali-local-*"
_RUNNING: Final = "running.json"
_LOCK: Final = "lock"
_START: Final = "start one with `make demo ARGS=--stay`, or name a deployed one with --stack"


def find(wanted: str | None = None) -> Path | None:
    """Return the file of the running stack, or of the one that `wanted` names by pid or path.

    Raises:
        Fault: there is none that `wanted` names, or there are several and none is named.
    """
    if wanted and os.sep in wanted:
        path = Path(wanted)
        path = path / _RUNNING if path.is_dir() else path
        if not path.is_file():
            raise Fault(Exit.NO_STACK, f"no stack runs in {wanted}; {_START}")
        return path
    running = list(_running())
    if wanted:
        running = [path for path in running if str(_read(path)["pid"]) == wanted]
        if not running:
            raise Fault(Exit.NO_STACK, f"no stack with the process id {wanted} runs here; {_START}")
    if len(running) > 1:
        choices = ", ".join(str(_read(path)["pid"]) for path in running)
        text = f"several stacks run here; choose one by its process id with --local-at: {choices}"
        raise Fault(Exit.NO_STACK, text)
    return running[0] if running else None


def place(path: Path, *, worker: str | None) -> Place:
    """Describe the stack whose file this is; `worker` is the module of another than the first.

    Raises:
        Fault: it has no such worker.
    """
    told = _read(path)
    functions = {one["name"]: _function(one) for one in told["functions"]}
    handlers = {one["name"]: one["handler"] for one in told["functions"]}
    wanted = None if worker is None else f"handlers.{worker.replace('-', '_')}.handler"
    feeding = [
        one for one in told["mappings"] if wanted is None or handlers[one["function"]] == wanted
    ]
    if not feeding:
        text = f"the stack in {path.parent} has no worker {worker or ''}".rstrip()
        raise Fault(Exit.NO_STACK, text, kind="no_worker")
    fed = feeding[0]
    function = functions.pop(fed["function"])
    others = tuple(functions.values())
    recover = next((one for one in others if "recover" in handlers[one.name]), None)
    return Place(
        name=told["stack"],
        local=True,
        clients=Session(
            profile=None,
            region=told["region"],
            endpoint_url=told["endpoint_url"],
            # The local server takes any; it must not be handed the caller's own.
            credentials=("local", "local"),
        ),
        worker=function,
        mapping=MappingFacts(
            queue_arn=fed["queue_arn"],
            batch_size=fed["batch_size"],
            window_seconds=fed["window_seconds"],
            partial_batches=fed["partial_batches"],
            max_concurrency=fed["max_concurrency"],
        ),
        recover=recover,
        log_file=told["log_file"],
        others=others,
    )


def _running() -> Iterator[Path]:
    for folder in sorted(Path(tempfile.gettempdir()).glob(_FOLDERS)):
        try:
            ours = folder.stat().st_uid == os.getuid()
        except OSError:
            continue
        if ours and (folder / _RUNNING).is_file() and _is_locked(folder / _LOCK):
            yield folder / _RUNNING


def _is_locked(path: Path) -> bool:
    """Tell whether the stack lives: the kernel gives a dead one's lock back."""
    try:
        handle = os.open(path, os.O_RDWR)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        return False
    finally:
        os.close(handle)


def _read(path: Path) -> dict[str, Any]:  # Any: JSON
    try:
        told: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise Fault(Exit.NO_STACK, f"{path} cannot be read: {error}") from error
    if told.get("version") != VERSION:
        text = f"{path} was written by another version ({told.get('version')}, not {VERSION})"
        raise Fault(Exit.NO_STACK, text)
    return told


def _function(told: dict[str, Any]) -> FunctionFacts:  # Any: JSON
    return FunctionFacts(
        name=told["name"],
        timeout_seconds=told["timeout_seconds"],
        memory_mib=told["memory_mib"],
        variables=told["variables"],
    )
