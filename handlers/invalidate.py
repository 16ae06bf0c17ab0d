"""Invalidate a month when its file in the bucket changes: S3 calls this for `flights/*.csv`.

What was computed from the old file is gone in every container: the month itself, every report about
it, and whatever is being computed from it right now, which will not be stored.

S3 delivers at least once and in any order, which does no harm here: a month that is invalidated
once too often is computed again. If the shared cache does not answer, the error goes back to
Lambda, which calls again.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_plus

from handlers.delays import month_tag
from sekali import cache

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SERVICE = "flight-invalidation"

_FLIGHTS_FILE = re.compile(r"flights/([0-9]{4}-[0-9]{2})\.csv")


def handler(event: Mapping[str, Any], context: Any) -> dict[str, list[str]]:  # Any: Lambda's own
    """Take one notification, by S3 or EventBridge; return the months that were invalidated."""
    months = sorted(set(_months(event)))
    if months:
        with cache(context, service=SERVICE) as tiers:
            tiers.invalidate(tags=[month_tag(month) for month in months])
    return {"months": months}


def _months(event: Mapping[str, Any]) -> Iterator[str]:  # Any: as above
    # EventBridge hands over one object at a time, its key as it is; S3's own notification hands
    # over records with the key quoted, and none at all when it is set up.
    if "detail" in event:
        found = _FLIGHTS_FILE.fullmatch(event["detail"]["object"]["key"])
        if found:
            yield found[1]
    for record in event.get("Records", ()):
        found = _FLIGHTS_FILE.fullmatch(unquote_plus(record["s3"]["object"]["key"]))
        if found:
            yield found[1]
