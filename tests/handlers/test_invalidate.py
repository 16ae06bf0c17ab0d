"""A file that changed in the bucket is seen by every report that is asked for afterwards."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

import boto3
import pytest

from handlers import invalidate, reports
from handlers.delays import month_tag
from sekali import SharedUnavailable, warm
from tests.flight_data import invented_month
from tests.worker_kit import Context, Kit, event, job, returned, started_kit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BUCKET = "flights"
MONTH = "2013-01"


@pytest.fixture
def kit(monkeypatch: pytest.MonkeyPatch, valkey_url: str, valkey: object) -> Iterator[Kit]:
    del valkey
    for name in (reports.worker.service, invalidate.SERVICE):
        for log in logging.getLogger(name).handlers:
            monkeypatch.setattr(log, "level", logging.CRITICAL)
    monkeypatch.setenv("REPORTS_DATA_BUCKET", BUCKET)
    with started_kit(monkeypatch, valkey_url) as kit:
        reports.s3.cache_clear()
        location: Any = {"LocationConstraint": "eu-west-1"}  # Any: a literal's stub
        boto3.client("s3").create_bucket(Bucket=BUCKET, CreateBucketConfiguration=location)
        put_month(MONTH, invented_month(MONTH))
        yield kit
    reports.s3.cache_clear()


def put_month(month: str, text: str) -> None:
    boto3.client("s3").put_object(Bucket=BUCKET, Key=f"flights/{month}.csv", Body=text.encode())


def notification(*keys: str) -> dict[str, Any]:
    return {"Records": [{"s3": {"object": {"key": key}}} for key in keys]}


def object_event(key: str, *, detail_type: str = "Object Created") -> dict[str, Any]:
    """Return what EventBridge hands over of one object, as the S3 guide shows it in full."""
    return {
        "version": "0",
        "id": "17793124-05d4-b198-2fde-7ededc63b103",
        "detail-type": detail_type,
        "source": "aws.s3",
        "account": "111122223333",
        "time": "2021-11-12T00:00:00Z",
        "region": "eu-west-1",
        "resources": [f"arn:aws:s3:::{BUCKET}"],
        "detail": {
            "version": "0",
            "bucket": {"name": BUCKET},
            "object": {
                "key": key,
                "size": 5,
                "etag": "b1946ac92492d2347c6235b4d2611184",
                "version-id": "IYV3p45BT0ac8hjHg1houSdS1a.Mro8e",
                "sequencer": "617f08299329d189",
            },
            "request-id": "N4N7GDK58NMKJ12R",
            "requester": "123456789012",
            "source-ip-address": "1.2.3.4",
            "reason": "PutObject",
        },
    }


def report(kit: Kit, job_id: str) -> dict[str, Any]:
    response = reports.handler(event(job(job_id, {"month": MONTH, "carrier": "UA"})), Context())
    row = kit.row("delay-report", job_id)
    assert returned(response) == []
    assert row is not None
    result: dict[str, Any] = json.loads(row["result"]["B"])
    return result


def without_half(text: str) -> str:
    lines = text.splitlines(keepends=True)
    return "".join(lines[:1] + lines[1::2])


def test_changed_file_is_seen_in_every_container(kit: Kit) -> None:
    containers = []
    before = []
    for number in range(2):
        warm.reset()
        before.append(report(kit, f"before-{number}"))
        containers.append(warm.container())
    put_month(MONTH, without_half(invented_month(MONTH)))

    warm.reset()
    answer = invalidate.handler(notification(f"flights/{MONTH}.csv"), Context())

    assert answer == {"months": [MONTH]}
    for number, container in enumerate(containers):
        with warm.inside(container):
            after = report(kit, f"after-{number}")
        assert after["flights"] < before[number]["flights"]


def test_file_that_changes_during_a_report_keeps_that_report_out_of_the_cache(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = reports.load_month

    def load_and_change(month: str) -> Any:  # Any: a Month
        loaded = load(month)
        put_month(MONTH, without_half(invented_month(MONTH)))
        here = warm.container()
        warm.reset()
        invalidate.handler(notification(f"flights/{MONTH}.csv"), Context())
        with warm._lock:  # noqa: SLF001 - the invalidation ran in another container
            warm._state["container"] = here  # noqa: SLF001
        return loaded

    monkeypatch.setattr(reports, "load_month", load_and_change)
    during = report(kit, "during")
    monkeypatch.setattr(reports, "load_month", load)

    after = report(kit, "after")

    assert after["flights"] < during["flights"]


@pytest.mark.usefixtures("kit")
def test_names_are_decoded_and_others_are_left_alone() -> None:
    answer = invalidate.handler(
        notification("flights%2F2013-02.csv", "flights/2013-02.csv", "results/x", "flights/a.csv"),
        Context(),
    )

    assert answer == {"months": ["2013-02"]}
    assert invalidate.handler({"Event": "s3:TestEvent"}, Context()) == {"months": []}


@pytest.mark.parametrize("detail_type", ["Object Created", "Object Deleted"])
def test_file_that_event_bridge_tells_of_is_seen_by_the_next_report(
    kit: Kit, detail_type: str
) -> None:
    before = report(kit, "before")
    put_month(MONTH, without_half(invented_month(MONTH)))
    unaware = report(kit, "unaware")

    answer = invalidate.handler(
        object_event(f"flights/{MONTH}.csv", detail_type=detail_type), Context()
    )

    assert answer == {"months": [MONTH]}
    assert unaware["flights"] == before["flights"]
    assert report(kit, "after")["flights"] < before["flights"]


@pytest.mark.usefixtures("kit")
@pytest.mark.parametrize(
    "key", ["flights/2013-1.csv", "flights/notes.txt", "results/flights/2013-01.csv", "flights/"]
)
def test_other_objects_that_event_bridge_tells_of_are_left_alone(key: str) -> None:
    assert invalidate.handler(object_event(key), Context()) == {"months": []}


@pytest.mark.usefixtures("kit")
def test_key_of_event_bridge_is_taken_as_it_is_where_that_of_s3_is_quoted() -> None:
    """EventBridge does not quote keys: decoding one would read another object's name."""
    quoted = "flights%2F2013-02.csv"

    assert invalidate.handler(object_event(quoted), Context()) == {"months": []}
    assert invalidate.handler(notification(quoted), Context()) == {"months": ["2013-02"]}


def by_topic(notice: dict[str, Any]) -> dict[str, Any]:
    return {"Records": [{"EventSource": "aws:sns", "Sns": {"Message": json.dumps(notice)}}]}


def by_queue(notice: dict[str, Any]) -> dict[str, Any]:
    return {"Records": [{"eventSource": "aws:sqs", "messageId": "m", "body": json.dumps(notice)}]}


def by_topic_and_queue(notice: dict[str, Any]) -> dict[str, Any]:
    return by_queue({"Type": "Notification", "Message": json.dumps(notice)})


@pytest.mark.usefixtures("kit")
@pytest.mark.parametrize("way", [by_topic, by_queue, by_topic_and_queue])
@pytest.mark.parametrize(
    "notice", [notification("flights%2F2013-02.csv"), object_event("flights/2013-02.csv")]
)
def test_notification_may_come_by_a_topic_or_a_queue(
    notice: dict[str, Any], way: Callable[[dict[str, Any]], dict[str, Any]]
) -> None:
    assert invalidate.handler(way(notice), Context()) == {"months": ["2013-02"]}
    assert invalidate.handler(way({"Event": "s3:TestEvent"}), Context()) == {"months": []}


@pytest.mark.parametrize(
    ("event", "named"),
    [
        ({}, "the fields \\[\\]"),
        ({"detail": {"bucket": {}}}, "the fields \\['detail'\\]"),
        ({"Records": [{"dynamodb": {}}]}, "the fields \\['dynamodb'\\]"),
        ({"Records": [{"s3": {"object": {}}}]}, "the fields \\['s3'\\]"),
        ({"Records": [None]}, "NoneType"),
        ({"Records": [{"body": "no json"}]}, "'no json'"),
    ],
)
def test_event_of_another_kind_is_refused_by_name(event: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=f"^event: .*{named}"):
        invalidate.handler(event, Context())


@pytest.mark.usefixtures("kit")
def test_cache_that_does_not_answer_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEKALI_CACHE_URL", "redis://127.0.0.1:1")
    warm.reset()

    with pytest.raises(SharedUnavailable, match="invalidate failed"):
        invalidate.handler(notification(f"flights/{MONTH}.csv"), Context(seconds=0.5))

    assert month_tag(MONTH) == "flights:2013-01"
