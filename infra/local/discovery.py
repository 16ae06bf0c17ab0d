"""Tell whoever looks for a running stack where it is: the `sekali` command does.

Two files in the stack's folder, which is gone when the stack is:

    running.json    the stack's name, its endpoints, and what its worker is deployed with
    logs.jsonl      each line that a function printed, with its time and its request

`running.json` is complete or absent. A reader takes the folder's lock for a sign of life: it is
free where the stack was killed. The shape is part of the command's contract (docs/cli.md).
"""

from __future__ import annotations

import json
import os
import threading
import time
from typing import TYPE_CHECKING, Any, Final

from infra.local import differences

if TYPE_CHECKING:
    from pathlib import Path

    from infra.local.environment import LogLine
    from infra.local.relay import Address
    from infra.local.template import EventSourceMapping, Function, Template

VERSION: Final = 1
RUNNING: Final = "running.json"
LOGS: Final = "logs.jsonl"


class LogFile:
    """Keep what the functions print; safe to use from any thread."""

    def __init__(self, path: Path) -> None:
        self._lock = threading.Lock()
        self._file = path.open("a", encoding="utf-8", buffering=1)

    def take(self, line: LogLine) -> None:
        """Write one line down."""
        entry = {
            "at": time.time(),
            "function": line.environment.function.name,
            "environment": line.environment.number,
            "request_id": line.request_id,
            "text": line.text,
        }
        with self._lock:
            self._file.write(json.dumps(entry) + "\n")

    def close(self) -> None:
        """Close the file; the folder's owner removes it."""
        with self._lock:
            self._file.close()


def announce(folder: Path, template: Template, *, endpoint: str, cache: Address) -> None:
    """Write `running.json`, at once and whole."""
    told = {
        "version": VERSION,
        "stack": template.stack_name,
        "pid": os.getpid(),
        "started_at": time.time(),
        "region": differences.REGION,
        "account": differences.ACCOUNT,
        "endpoint_url": endpoint,
        "log_file": str(folder / LOGS),
        "functions": [
            _function(function, endpoint=endpoint, cache=cache)
            for function in template.functions.values()
        ],
        "mappings": [_mapping(one, template) for one in template.mappings],
    }
    unfinished = folder / f"{RUNNING}.new"
    unfinished.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")
    unfinished.rename(folder / RUNNING)


def _function(
    function: Function, *, endpoint: str, cache: Address
) -> dict[str, Any]:  # Any: JSON, here and below
    return {
        "name": function.name,
        "handler": function.handler,
        "timeout_seconds": function.timeout_seconds,
        "memory_mib": function.memory_mib,
        "variables": differences.localise(function.variables, aws_endpoint=endpoint, cache=cache),
    }


def _mapping(mapping: EventSourceMapping, template: Template) -> dict[str, Any]:
    queue = template.queues[mapping.queue]
    return {
        "function": template.functions[mapping.function].name,
        "queue_arn": queue.arn,
        "batch_size": mapping.batch_size,
        "window_seconds": mapping.window_seconds,
        "partial_batches": mapping.partial_batches,
        "max_concurrency": mapping.max_concurrency,
    }
