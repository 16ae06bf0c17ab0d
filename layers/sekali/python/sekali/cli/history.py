"""Read what became of an id, time after time, from the lines that the worker logs."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sekali.cli.place import Place

MOST_EVENTS: Final = 200
_TOLD: Final = (
    "outcome",
    "reason",
    "source",
    "attempt",
    "fence",
    "key",
    "run_ms",
    "latency_ms",
    "trace_id",
)


def history(
    place: Place, *, name: str, job_id: str, hours: float
) -> list[dict[str, Any]]:  # Any: JSON
    """Return one entry for each record of the id that was settled lately, the oldest first.

    Raises:
        botocore.exceptions.ClientError: the caller may not read the logs.
    """
    lines = _local(place.log_file) if place.log_file else _cloud(place, name, job_id, hours)
    found = []
    for at, request_id, text in lines:
        fields = _fields(text)
        if fields.get("id") == job_id and fields.get("job") == name and "outcome" in fields:
            told = {field: fields.get(field) for field in _TOLD}
            found.append({"at": at, "request_id": request_id} | told)
    return found[-MOST_EVENTS:]


def _local(log_file: str) -> Iterator[tuple[float, str, str]]:
    with Path(log_file).open(encoding="utf-8") as lines:
        for line in lines:
            if line.endswith("\n"):
                entry = json.loads(line)
                yield entry["at"], entry["request_id"], entry["text"]


def _cloud(place: Place, name: str, job_id: str, hours: float) -> Iterator[tuple[float, str, str]]:
    since_ms = int((time.time() - hours * 3_600) * 1000)
    pattern = f"{{ $.id = {json.dumps(job_id)} && $.job = {json.dumps(name)} }}"
    pages = place.clients("logs").get_paginator("filter_log_events")
    for page in pages.paginate(
        logGroupName=place.worker.log_group,
        filterPattern=pattern,
        startTime=since_ms,
        PaginationConfig={"MaxItems": MOST_EVENTS},
    ):
        for event in page["events"]:
            yield (
                event["timestamp"] / 1000,
                _fields(event["message"]).get("function_request_id", ""),
                event["message"],
            )


def _fields(text: str) -> Mapping[str, Any]:  # Any: JSON
    if not text.startswith("{"):
        return {}
    try:
        fields = json.loads(text)
    except ValueError:
        return {}
    return fields if isinstance(fields, dict) else {}
