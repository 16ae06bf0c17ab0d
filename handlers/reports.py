"""Answer how late a carrier was in a month: the example job, and the worker around it.

A payload is `{"month": "2013-01", "carrier": "UA"}`, with `"origin": "JFK"` for one airport only.
Equal questions are one computation, and all questions about a month share its parsed flights.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from handlers.delays import delay_report, month_tag, parse_flights
from sekali import PermanentError, Worker

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mypy_boto3_s3.client import S3Client

    from handlers.delays import Month, Report
    from sekali import Job

REPORT_TTL_SECONDS = 3_600
# Long enough for the questions of one rush; a corrected file is seen soon after.
MONTH_TTL_SECONDS = 300

_MONTH = re.compile(r"[0-9]{4}-(0[1-9]|1[0-2])")
_CARRIER = re.compile(r"[A-Z0-9]{2}")
_ORIGIN = re.compile(r"[A-Z]{3}")

worker = Worker("flight-reports")


class Question(NamedTuple):
    """What a payload asks for."""

    month: str
    carrier: str
    origin: str | None


def read_question(payload: Mapping[str, Any]) -> Question:  # Any: whatever the sender wrote
    """Read a payload.

    Raises:
        ValueError: a field is missing or is not of its form; the text names it.
    """
    origin = payload.get("origin")
    return Question(
        month=_field(payload, "month", _MONTH, "like 2013-01"),
        carrier=_field(payload, "carrier", _CARRIER, "a code of two like UA"),
        origin=None if origin is None else _field(payload, "origin", _ORIGIN, "like JFK"),
    )


def report_key(payload: Mapping[str, Any]) -> str:  # Any: as above
    """Return one key for every payload that asks the same: `2013-01/UA/JFK`, `2013-01/UA/all`."""
    question = read_question(payload)
    return f"{question.month}/{question.carrier}/{question.origin or 'all'}"


def report_tags(payload: Mapping[str, Any]) -> list[str]:  # Any: as above
    """Return the tags of a report: that of its month."""
    return [month_tag(read_question(payload).month)]


@worker.job("delay-report", key=report_key, tags=report_tags, ttl_seconds=REPORT_TTL_SECONDS)
def make_report(job: Job) -> Report:
    """Compute one report; the month's flights come from the cache where they can."""
    _tell("computing report", job_id=job.id, key=job.key, attempt=job.attempt)
    month, carrier, origin = read_question(job.payload)
    flights: Month = job.cache.get_or_load(
        f"flights/{month}",
        lambda: load_month(month),
        ttl_seconds=MONTH_TTL_SECONDS,
        tags=[month_tag(month)],
    )
    return delay_report(flights, carrier=carrier, origin=origin)


def load_month(month: str) -> Month:
    """Read and parse a month's flights.

    Raises:
        PermanentError: there is no such month in the bucket.
        ValueError: the month's file is damaged; a repaired one makes the next attempt succeed.
    """
    client = s3()
    bucket, object_key = os.environ["REPORTS_DATA_BUCKET"], f"flights/{month}.csv"
    _tell("loading flights", month=month)
    try:
        stored = client.get_object(Bucket=bucket, Key=object_key)
    except client.exceptions.NoSuchKey as error:
        raise PermanentError(f"no flights of {month}: {object_key} does not exist") from error
    return parse_flights(stored["Body"].read().decode())


def _field(payload: Mapping[str, Any], name: str, form: re.Pattern[str], rule: str) -> str:
    value = payload.get(name)
    if not isinstance(value, str) or not form.fullmatch(value):
        raise ValueError(f"{name} must be {rule}, got {value!r:.40}")
    return value


def _tell(message: str, **fields: object) -> None:
    """Write one log line at once: it is there even if this process dies in the next moment."""
    sys.stdout.write(
        json.dumps({"level": "INFO", "message": message, "at": time.time()} | fields) + "\n"
    )
    sys.stdout.flush()


@cache
def s3() -> S3Client:
    """Return the client, made at the first load: a batch of known answers never needs it."""
    import boto3
    from botocore.config import Config

    # A store that hangs has to fail this job, not take the batch over the function's timeout.
    return boto3.client("s3", config=Config(connect_timeout=1, read_timeout=3))


handler = worker.handler
