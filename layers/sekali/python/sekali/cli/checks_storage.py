"""Check table and bucket: what is recorded there is final, and must last."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sekali.cli.checks_functions import unknown
from sekali.cli.examining import Finding, Unread
from sekali.errors import SettingInvalid

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sekali.cli.examining import Examined, Facts

TTL_ATTRIBUTE: Final = "expires"
PENDING_INDEX: Final = "pending"
RESULTS_PREFIX: Final = "results/"
_DAY_SECONDS: Final = 86_400
_KEY: Final = [{"AttributeName": "pk", "KeyType": "HASH"}]


def table(stack: Examined) -> Iterator[Finding]:
    """Check that the table is there, and has the shape that the worker writes."""
    if _without_table(stack):
        return
    found = stack.table
    if isinstance(found, Unread):
        if found.denied:
            yield unknown("table", found)
            return
        yield Finding(
            check="table",
            state="wrong",
            found=f"the table {stack.variable('SEKALI_TABLE_NAME')} cannot be read: {found.code}",
            remedy="deploy the table, or set SEKALI_TABLE_NAME to its name",
        )
        return
    if found["KeySchema"] != _KEY:
        yield Finding(
            check="table",
            state="wrong",
            found=f"the table's key is {_key_of(found)}",
            remedy="deploy a table whose only key is `pk` (HASH, text)",
        )
    indexes = {one["IndexName"] for one in found.get("GlobalSecondaryIndexes", [])}
    if PENDING_INDEX not in indexes:
        yield Finding(
            check="table",
            state="wrong",
            found="the table has no index `pending`: recovery cannot find jobs that wait",
            remedy="add the index of infra/storage.py to it",
        )


def time_to_live(stack: Examined) -> Iterator[Finding]:
    """Check that records end by themselves."""
    if _without_table(stack) or isinstance(stack.table, Unread):
        return
    found = stack.table_ttl
    if isinstance(found, Unread):
        yield unknown("time to live", found)
        return
    attribute = found.get("AttributeName")
    on = found.get("TimeToLiveStatus") in {"ENABLED", "ENABLING"}
    if not on or attribute != TTL_ATTRIBUTE:
        yield Finding(
            check="time to live",
            state="wrong",
            found=f"the table's time to live is {'on ' + str(attribute) if on else 'off'}",
            remedy=f"aws dynamodb update-time-to-live with AttributeName={TTL_ATTRIBUTE}: records"
            " are never deleted without",
        )


def bucket(stack: Examined) -> Iterator[Finding]:
    """Check that large results have a place, and last as long as the records that point at them."""
    name, found = stack.variable("SEKALI_RESULTS_BUCKET"), stack.settings
    if not name:
        yield Finding(
            check="bucket",
            state="warning",
            found="there is no bucket: a result above 300 KB fails its job",
            remedy="set SEKALI_RESULTS_BUCKET",
        )
        return
    fact = stack.bucket
    if isinstance(fact, Unread) and not (fact.denied or fact.code in {"403", "Forbidden"}):
        yield Finding(
            check="bucket",
            state="wrong",
            found=f"the bucket {name} is not there: {fact.code}",
            remedy="deploy the bucket, or set SEKALI_RESULTS_BUCKET to its name",
        )
        return
    if isinstance(fact, Unread):
        yield unknown("bucket", fact)
        return
    rules = [] if isinstance(stack.lifecycle, Unread) else stack.lifecycle
    seconds = min((_lifetime(rule) for rule in rules), default=float("inf"))
    if not isinstance(found, SettingInvalid) and seconds < found.record_ttl_seconds:
        yield Finding(
            check="bucket",
            state="wrong",
            found=f"large results end after {seconds:.0f} s, their records after"
            f" {found.record_ttl_seconds:.0f}",
            remedy="let the rule of results/ keep objects for a day longer than"
            " SEKALI_RECORD_TTL_SECONDS",
        )


def _without_table(stack: Examined) -> bool:
    found = stack.settings
    return not isinstance(found, SettingInvalid) and found.durable_mode == "redis"


def _key_of(found: Facts) -> str:
    return ", ".join(f"{one['AttributeName']} ({one['KeyType']})" for one in found["KeySchema"])


def _lifetime(rule: Facts) -> float:
    """Return after how many seconds a rule ends results; infinite where it does not."""
    prefix = rule.get("Filter", {}).get("Prefix", rule.get("Prefix", ""))
    days = rule.get("Expiration", {}).get("Days")
    applies = rule.get("Status") == "Enabled" and RESULTS_PREFIX.startswith(prefix)
    return days * _DAY_SECONDS if applies and days else float("inf")
