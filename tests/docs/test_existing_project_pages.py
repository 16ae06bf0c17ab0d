"""The pages for projects that take a part only: their snippets run, and do what the pages say."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from aws_lambda_powertools.utilities.idempotency.exceptions import IdempotencyValidationError
from moto import mock_aws

from sekali import warm
from sekali.testing import FakeLoader, sqs_event
from tests.docs.clone import ROOT
from tests.worker_kit import Context

if TYPE_CHECKING:
    from collections.abc import Iterator

    from redis import Redis

Names = dict[str, Any]  # Any: whatever a page defines
VARIABLE = re.compile(r"^export (SEKALI_\w+)=(\S+)$", flags=re.MULTILINE)


def page(name: str) -> str:
    return (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")


def defined(name: str, **given: Any) -> Names:  # Any: what the reader has
    """Run a page's snippets in their order, in one namespace."""
    names: Names = {"__name__": "page", **given}
    for code in re.findall(r"```python\n(.*?)```", page(name), flags=re.DOTALL):
        exec(compile(code, f"{name}.md", "exec"), names)  # noqa: S102  the page's own words
    return names


@pytest.fixture(autouse=True)
def surroundings(monkeypatch: pytest.MonkeyPatch, valkey: Redis, valkey_url: str) -> Iterator[None]:
    """The two variables that the pages ask for, and no others."""
    assert valkey.dbsize() == 0
    for name, value in VARIABLE.findall(page("existing-project")):
        monkeypatch.setenv(name, value if name == "SEKALI_DURABLE_MODE" else valkey_url)
    warm.reset()
    yield
    warm.reset()


def test_settings_of_the_page_are_enough() -> None:
    assert {name for name, _ in VARIABLE.findall(page("existing-project"))} == {
        name for name in os.environ if name.startswith("SEKALI_")
    }

    names = defined("existing-project")

    assert names["settings"].table_name is None


def test_cache_page_loads_once_until_it_is_invalidated() -> None:
    fetch = FakeLoader(1.1, 1.2)
    names = defined("cache-only", fetch_rate=lambda _: fetch())
    asked = {"currency": "EUR", "cents": 1_000}

    before = [names["handler"](asked, Context()) for _ in range(2)]
    names["rates_changed"]({}, Context())
    after = names["handler"](asked, Context())

    assert before == [{"cents": 1_100}] * 2
    assert after == {"cents": 1_200}
    assert fetch.calls == 2


def test_process_that_stays_needs_no_block() -> None:
    fetch = FakeLoader(1.1)
    names = defined("cache-only", fetch_rate=lambda _: fetch())

    rates = names["serve"](["EUR", "EUR"])

    assert rates == [1.1, 1.1]
    assert fetch.calls == 1


def test_lock_page_writes_its_parts_or_says_who_is_busy() -> None:
    written: list[int] = []
    names = defined("lock-only", parts=lambda: range(3), write=written.append)

    alone = names["rebuild_index"]()
    with names["lease"]("search-index"):
        names["rebuild_index"].__globals__["lease"] = impatient(names["lease"])
        beside = names["rebuild_index"]()

    assert alone == "rebuilt"
    assert written == [0, 1, 2]
    assert beside.startswith("busy: local/")


def impatient(lease: Any) -> Any:  # Any: the function of the page
    return lambda key, **_: lease(key, wait_seconds=0)


def test_stale_holder_of_the_lock_page_is_refused_by_the_table() -> None:
    with mock_aws():
        boto3.client("dynamodb").create_table(
            TableName="ledger",
            KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
        table = boto3.resource("dynamodb").Table("ledger")
        names = defined("lock-only", parts=list, write=print)
        with names["lease"]("ledger/2026-11") as stale:
            pass

        fence = names["save"](table, 7)

        assert fence > stale.fence
        with pytest.raises(table.meta.client.exceptions.ConditionalCheckFailedException):
            table.put_item(Item={"pk": "2026-11", "total": 8} | stale.stamp(), **stale.condition())
        assert table.get_item(Key={"pk": "2026-11"})["Item"]["total"] == 7


def test_condition_of_the_sql_refuses_a_smaller_fence() -> None:
    import sqlite3

    (statement,) = re.findall(r"```sql\n(.*?)```", page("lock-only"), flags=re.DOTALL)
    ledger = sqlite3.connect(":memory:")
    ledger.execute("CREATE TABLE ledger (month, total, fence)")
    ledger.execute("INSERT INTO ledger VALUES ('2026-11', 0, 0)")

    for total, fence in ((1, 8), (2, 7)):
        ledger.execute(statement, {"total": total, "fence": fence, "month": "2026-11"})

    assert ledger.execute("SELECT total, fence FROM ledger").fetchall() == [(1, 8)]
    ledger.close()


def test_own_batch_charges_each_order_once_and_reports_what_failed() -> None:
    sent: list[int] = []

    def send_to_bank(cents: int) -> str:
        if cents < 0:
            raise ValueError(cents)
        sent.append(cents)
        return f"sent {cents}"

    names = defined("own-batch", send_to_bank=send_to_bank)
    event = sqs_event(
        {"id": "order-1", "cents": 5},
        {"id": "order-1", "cents": 5},
        {"id": "order-2", "cents": -1},
        {"id": "order-3", "cents": 7},
    )

    answers = [names["handler"](event, Context()) for _ in range(2)]

    failed = [{"itemIdentifier": event["Records"][2]["messageId"]}]
    assert [answer["batchItemFailures"] for answer in answers] == [failed, failed]
    assert sent == [5, 7]
    with pytest.raises(IdempotencyValidationError):
        names["charge"](order={"id": "order-1", "cents": 6})
