"""Payloads that stay in a bucket: written once, read once and only when needed, always checked."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from moto import mock_aws

from sekali.codec import payload_hash
from sekali.contract import PayloadRef
from sekali.errors import MessageInvalid, StoreUnavailable
from sekali.message import Message, decode, encode
from sekali.offloaded import hash_of
from sekali.outgoing import dead_letter, delayed_copy
from sekali.payload_bucket import LARGEST_BYTES, Payloads

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mypy_boto3_s3.client import S3Client

BUCKET = "payloads-of-tests"
PAYLOAD: dict[str, object] = {"rows": [1, 2.0, "drei"], "unicode": "é\ud800"}


class Counted:
    """An S3 client that counts what is read."""

    def __init__(self, client: Any) -> None:  # Any: boto3's client
        self._client = client
        self.reads = 0

    def put_object(self, **request: object) -> object:
        return self._client.put_object(**request)

    def get_object(self, **request: object) -> Any:  # Any: as boto3
        self.reads += 1
        return self._client.get_object(**request)


@pytest.fixture
def s3() -> Iterator[S3Client]:
    with mock_aws():
        client = boto3.client("s3")
        client.create_bucket(
            Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": "eu-west-1"}
        )
        yield client


@pytest.fixture
def counted(s3: S3Client) -> Counted:
    return Counted(s3)


@pytest.fixture
def payloads(counted: Counted) -> Payloads:
    return Payloads(BUCKET, lambda: counted)


def message(payload: Any) -> Message:  # Any: a payload of either kind
    return Message(id="a", name="report", payload=payload, first_sent=1.0, enqueued_at=1.0)


def read_back(body: str, payloads: Payloads) -> Message:
    return decode({"body": body}, default_job=None, payloads=payloads)


def test_payload_comes_back_as_it_was_written(payloads: Payloads) -> None:
    written = payloads.put("report", PAYLOAD)

    received = read_back(encode(message(written)), payloads)

    assert dict(received.payload) == PAYLOAD
    assert hash_of(received.payload) == payload_hash(PAYLOAD)


def test_equal_payloads_are_one_object(payloads: Payloads, s3: S3Client) -> None:
    first = payloads.put("report", {"a": 1, "b": 2})
    second = payloads.put("report", {"b": 2, "a": 1})

    assert first.ref == second.ref
    assert len(s3.list_objects_v2(Bucket=BUCKET)["Contents"]) == 1


def test_hash_is_known_before_anything_is_read(payloads: Payloads, counted: Counted) -> None:
    body = encode(message(payloads.put("report", PAYLOAD)))

    received = read_back(body, payloads)

    assert hash_of(received.payload) == payload_hash(PAYLOAD)
    assert counted.reads == 0


def test_payload_is_read_once_however_often_it_is_looked_at(
    payloads: Payloads, counted: Counted
) -> None:
    payload = payloads.behind(PayloadRef(payloads.put("report", PAYLOAD).key, None))

    looks = [dict(payload), payload["rows"], len(payload), hash_of(payload)]

    assert looks == [PAYLOAD, PAYLOAD["rows"], len(PAYLOAD), payload_hash(PAYLOAD)]
    assert counted.reads == 1


def test_copy_and_dead_letter_refer_to_the_object_without_reading_it(
    payloads: Payloads, counted: Counted
) -> None:
    body = encode(message(payloads.put("report", PAYLOAD)))
    received = read_back(body, payloads)

    copy = read_back(delayed_copy(received, deferrals=1).body, payloads)
    letter = dead_letter(received, reason="failed")

    assert (copy.id, copy.deferrals) == ("a", 1)
    assert hash_of(copy.payload) == payload_hash(PAYLOAD)
    assert letter.body == body
    assert counted.reads == 0


def test_missing_object_is_a_fault_of_the_message(payloads: Payloads) -> None:
    payload = payloads.behind(PayloadRef("payloads/gone", None))

    with pytest.raises(MessageInvalid) as caught:
        payload.load()

    assert (caught.value.reason, caught.value.field) == ("payload_missing", "payload_ref")


def test_object_that_was_replaced_is_not_taken_for_the_payload(
    payloads: Payloads, s3: S3Client
) -> None:
    written = payloads.put("report", PAYLOAD)
    s3.put_object(Bucket=BUCKET, Key=written.key, Body=b'{"rows": []}')

    with pytest.raises(MessageInvalid, match="content has its hash"):
        read_back(encode(message(written)), payloads).payload["rows"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"", "empty"), (b"[1]", "not_object"), (b"\xff", "not_json"), (b'{"a": NaN}', "not_json")],
)
def test_object_that_is_no_payload_names_its_reason(
    payloads: Payloads, s3: S3Client, content: bytes, reason: str
) -> None:
    s3.put_object(Bucket=BUCKET, Key="payloads/odd", Body=content)

    with pytest.raises(MessageInvalid) as caught:
        payloads.behind(PayloadRef("payloads/odd", None)).load()

    assert (caught.value.reason, caught.value.field) == (reason, "payload_ref")


def test_payload_that_no_worker_would_read_is_not_written(payloads: Payloads) -> None:
    with pytest.raises(MessageInvalid) as caught:
        payloads.put("report", {"x": "y" * LARGEST_BYTES})

    assert caught.value.reason == "payload_rejected"


def test_object_that_is_too_large_is_not_read_into_memory(payloads: Payloads, s3: S3Client) -> None:
    s3.put_object(Bucket=BUCKET, Key="payloads/large", Body=b" " * (LARGEST_BYTES + 1))

    with pytest.raises(MessageInvalid, match="at most"):
        payloads.behind(PayloadRef("payloads/large", None)).load()


def test_bucket_that_does_not_answer_is_no_fault_of_the_message(s3: S3Client) -> None:
    payloads = Payloads("no-such-bucket", lambda: s3)

    with pytest.raises(StoreUnavailable, match="fetch payload failed with NoSuchBucket"):
        payloads.behind(PayloadRef("payloads/a", None)).load()
    with pytest.raises(StoreUnavailable, match="put payload failed with NoSuchBucket"):
        payloads.put("report", PAYLOAD)


def test_worker_without_a_bucket_refuses_a_reference() -> None:
    body = json.dumps(
        {"sekali": 1, "id": "a", "name": "report", "payload_ref": {"key": "payloads/a"}}
    )

    with pytest.raises(MessageInvalid, match="SEKALI_RESULTS_BUCKET"):
        decode({"body": body}, default_job=None)
