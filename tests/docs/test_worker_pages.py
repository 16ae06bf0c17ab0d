"""docs/worker.md and docs/leases.md say what the code does."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
import pytest

from sekali import warm
from sekali.heartbeat import KILL_SLOP_SECONDS
from sekali.leaks import LONG_FACTOR
from sekali.settings import Settings
from tests.worker_kit import Context, Kit, event, job, returned, started_kit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from redis import Redis

DOCS = Path(__file__).parents[2] / "docs"
WORKER = (DOCS / "worker.md").read_text(encoding="utf-8")
LEASES = (DOCS / "leases.md").read_text(encoding="utf-8")


@pytest.fixture
def kit(monkeypatch: pytest.MonkeyPatch, valkey: Redis, valkey_url: str) -> Iterator[Kit]:
    assert valkey.dbsize() == 0
    with started_kit(monkeypatch, valkey_url) as started:
        warm.reset()
        yield started


def python(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)


def test_the_jobs_of_the_page_run_and_fail_as_it_says(kit: Kit) -> None:
    booked: list[str] = []

    async def book_parcel(payload: dict[str, Any], *, idempotency_key: str) -> str:
        booked.append(idempotency_key)
        return str(payload["to"])

    def post_charge(payload: dict[str, Any], *, idempotency_key: str) -> str:
        raise OSError(idempotency_key, payload)

    names: dict[str, Any] = {"book_parcel": book_parcel, "post_charge": post_charge}
    (code,) = python(WORKER)
    exec(compile(code, "docs/worker.md", "exec"), names)  # noqa: S102  the page's own words

    response = names["handler"](
        event(
            job("light", {"weight": 3, "to": "Oslo"}, name="ship"),
            job("heavy", {"weight": 31}, name="ship"),
            job("lacking", {}, name="ship"),
            job("failing", {"n": 1}, name="charge"),
        ),
        Context(),
    )

    assert returned(response) == []
    assert booked == ["light"]
    letters = [letter["attributes"]["sekali.error_type"] for letter in kit.dead_letters()]
    assert sorted(letters) == ["KeyError", "PermanentError"]
    assert len(kit.copies()) == 1


def test_the_lease_of_the_page_guards_a_row_and_a_block(kit: Kit) -> None:
    in_job, alone = python(LEASES)
    names: dict[str, Any] = {
        "look_up": len,
        "table": boto3.resource("dynamodb").Table("results"),
    }
    exec(compile(in_job, "docs/leases.md", "exec"), names)  # noqa: S102  the page's own words
    worker = kit.worker()
    worker.job("pay", key="{payload[order]}")(names["pay"])

    response = worker.handler(event(job("a", {"order": "o-1"})), Context())
    exec(compile(alone, "docs/leases.md", "exec"), names)  # noqa: S102  the page's own words

    assert returned(response) == []
    row = kit.dynamodb.get_item(TableName="results", Key={"pk": {"S": "o-1"}})["Item"]
    assert row["amount"] == {"N": "3"}
    assert "sekali_fence" in row


def test_the_numbers_of_the_pages_are_those_of_the_code() -> None:
    settings = Settings(cache_url="valkey://cache:6379", table_name="results")

    assert f"is short ({settings.lease_seconds:g} s)" in LEASES
    assert f"{KILL_SLOP_SECONDS:g} s after the function's deadline" in LEASES
    assert LONG_FACTOR == 5.0
    assert "more than five of the job" in LEASES
    assert f"after {settings.flush_after_seconds:g} s of work" in WORKER
    assert f"cools for {settings.cooling_base_seconds:g} s" in WORKER
