"""Invalidate a month when its file in the bucket changes: S3 calls this for `flights/*.csv`.

What was computed from the old file is gone in every container: the month itself, every report about
it, and whatever is being computed from it right now, which will not be stored.

A notification comes from S3 itself, by EventBridge, or by a topic or a queue in between.

S3 delivers at least once and in any order, which does no harm here: a month that is invalidated
once too often is computed again. If the shared cache does not answer, the error goes back to
Lambda, which calls again.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_plus

from handlers.delays import month_tag
from sekali import cache

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SERVICE = "flight-invalidation"

_SHOWN = 80
_FLIGHTS_FILE = re.compile(r"flights/([0-9]{4}-[0-9]{2})\.csv")


def handler(event: Mapping[str, Any], context: Any) -> dict[str, list[str]]:  # Any: Lambda's own
    """Take one notification; return the months that were invalidated.

    Raises:
        ValueError: it is none of those above, which names where it differs.
    """
    found = map(_FLIGHTS_FILE.fullmatch, _keys(event))
    months = sorted({match[1] for match in found if match})
    if months:
        with cache(context, service=SERVICE) as tiers:
            tiers.invalidate(tags=[month_tag(month) for month in months])
    return {"months": months}


def _keys(notice: object) -> Iterator[str]:
    match notice:
        # One object at a time, its key as it is.
        case {"detail": {"object": {"key": str(key)}}}:
            yield key
        # S3's own, its keys quoted; or what has one inside.
        case {"s3": {"object": {"key": str(key)}}}:
            yield unquote_plus(key)
        case {"Records": [*records]}:
            for record in records:
                yield from _keys(record)
        case {"Sns": {"Message": str(text)}} | {"body": str(text)} | {"Message": str(text)}:
            yield from _keys(_read(text))
        # Sent once, when notifications are set up.
        case {"Event": "s3:TestEvent"}:
            return
        case _:
            raise ValueError(
                f"event: must be a notification of S3 about objects, got {_shown(notice)}"
            )


def _read(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ValueError(f"event: what is wrapped must be JSON, got {text[:_SHOWN]!r}") from error


def _shown(notice: object) -> str:
    return (
        f"the fields {sorted(notice)[:10]}" if isinstance(notice, dict) else type(notice).__name__
    )
