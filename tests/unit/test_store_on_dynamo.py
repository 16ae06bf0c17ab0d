"""What the store sends to DynamoDB and S3, when it sends it, and how long it waits."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from botocore.config import Config

from sekali.aws_clients import aws_client
from sekali.errors import StoreUnavailable
from sekali.store import Store
from sekali.store_rows import Accepted, Claim, Outcome, Rejected, partition_key, pending_part
from sekali.telemetry.events import Event, StoreRead, StoreWritten
from sekali.testing import FrozenClock
from tests.contracts.store_backends import OnAws, in_process
from tests.contracts.store_words import (
    DAY_SECONDS,
    ID,
    LARGE,
    NAME,
    brought_to,
    claimed,
    ended,
    row_in,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

KEY = f"{NAME}/{ID}"


@pytest.fixture(scope="module")
def aws() -> Iterator[OnAws]:
    with in_process() as server:
        yield server


@pytest.fixture
def backend(aws: OnAws) -> OnAws:
    return aws.renew()


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


@pytest.fixture
def store(backend: OnAws, clock: FrozenClock) -> Store:
    return backend.open(clock)


def outcome(job_id: str, result: bytes = b"1") -> Outcome:
    return Outcome(NAME, job_id, "done", "same", 10, "mine", DAY_SECONDS, result)


def test_an_outcome_is_one_item_of_plain_attributes(backend: OnAws, store: Store) -> None:
    ended(store, fence=1_794_000_000_000_001, result=b"\x00{}")

    assert backend.item(KEY) == {
        "pk": {"S": "monthly-delays/order-7"},
        "st": {"S": "done"},
        "f": {"N": "1794000000000001"},
        "tk": {"S": "mine"},
        "ph": {"S": "same"},
        "result": {"B": b"\x00{}"},
        "deadline": {"N": "0"},
        "expires": {"N": "1700086400"},
    }


def test_a_large_result_is_an_object_named_by_its_content(backend: OnAws, store: Store) -> None:
    ended(store, result=LARGE)

    owner, digest = hashlib.sha256(ID.encode()).hexdigest(), hashlib.sha256(LARGE).hexdigest()
    key = f"results/monthly-delays/{owner}/{digest}"
    item = backend.item(KEY)
    body = backend.clients["s3"].get_object(Bucket=backend.bucket_name, Key=key)["Body"].read()
    assert (item["pointer"], "result" in item) == ({"S": key}, False)
    assert body == LARGE


def test_two_large_results_of_one_id_do_not_share_an_object(store: Store) -> None:
    ended(store, token="", result=LARGE)

    answer = ended(store, token="", result=LARGE.replace(b"x", b"y"))

    assert isinstance(answer, Rejected)
    assert row_in(store).result == LARGE


def test_no_item_is_written_before_its_object(backend: OnAws, store: Store) -> None:
    backend.throttle_next()

    with pytest.raises(StoreUnavailable, match="put failed with ThrottlingException"):
        ended(store, result=LARGE)

    assert store.get_many([(NAME, ID)]) == {}


def test_a_damaged_object_is_noticed(backend: OnAws, store: Store) -> None:
    ended(store, result=LARGE)
    key = row_in(store).stored.decode().removeprefix("s3:")
    backend.clients["s3"].put_object(Bucket=backend.bucket_name, Key=key, Body=b"{}")

    with pytest.raises(StoreUnavailable, match="content is not what its name says"):
        _ = row_in(store).result


# Repeats that the client makes by itself, and requests that arrive late.


def test_a_write_that_the_client_repeated_by_itself_counts_once(
    backend: OnAws, store: Store
) -> None:
    backend.faults.resends = 3

    claim = claimed(store)
    given_back = store.give_back(NAME, ID, token="mine")
    record = ended(store)

    assert claim == Accepted(1_700_000_000_000_000, repeated=True)
    assert given_back is True
    assert record == Accepted(10, b'{"by":"me"}', repeated=True)


def test_a_claim_that_arrives_late_changes_nothing(
    backend: OnAws, store: Store, clock: FrozenClock
) -> None:
    brought_to("pending", store)
    claimed(store)
    late = len(backend.faults.sent) - 1

    store.give_back(NAME, ID, token="mine")
    after_give_back = backend.resend(late)
    claimed(store, token="second")
    clock.sleep(3_600.0)
    after_another = backend.resend(late)
    ended(store, token="second")
    after_the_end = backend.resend(late)

    assert (after_give_back, after_another, after_the_end) == (False, False, False)


def test_an_outcome_that_arrives_late_changes_nothing(backend: OnAws, store: Store) -> None:
    ended(store, outcome="failed")

    assert backend.resend() is False


def test_a_giving_back_that_arrives_late_spares_the_next_holder(
    backend: OnAws, store: Store
) -> None:
    claimed(store)
    store.give_back(NAME, ID, token="mine")
    late = len(backend.faults.sent) - 1
    claimed(store, token="second")

    assert backend.resend(late) is False


def pending(store: Store, job_id: str) -> None:
    store.claim_many(
        [
            Claim(
                name=NAME,
                id=job_id,
                payload_hash="same",
                token="mine",
                remaining_seconds=60.0,
                ttl_seconds=DAY_SECONDS,
            )
        ]
    )
    store.give_back(NAME, job_id, token="mine")


def test_the_index_lists_what_is_pending_by_its_keys_alone(
    backend: OnAws, store: Store, clock: FrozenClock
) -> None:
    for job_id in ("waits", "was claimed", "was done"):
        pending(store, job_id)
    store.claim(
        NAME,
        "was claimed",
        payload_hash="same",
        token="second",
        remaining_seconds=60.0,
        ttl_seconds=DAY_SECONDS,
    )
    ended(store, job_id="was done")
    since = clock.wall()

    found = store.pending(before=since + 1)
    earlier = store.pending(before=since)
    listed = backend.clients["dynamodb"].scan(TableName=backend.table_name, IndexName="pending")

    assert found == ([(NAME, "waits", since)], True)
    assert earlier == ([], True)
    assert [sorted(item) for item in listed["Items"]] == [["f", "pending", "pk"]]


def test_of_many_pending_ids_the_oldest_are_told_and_that_there_are_more(
    store: Store, clock: FrozenClock
) -> None:
    ids = [str(number) for number in range(30)]
    for job_id in ids:
        pending(store, job_id)
        clock.sleep(1.0)

    oldest, complete = store.pending(before=clock.wall(), most=5)
    everything, all_of_them = store.pending(before=clock.wall(), most=30)

    assert [job_id for _, job_id, _ in oldest] == ids[:5]
    assert [job_id for _, job_id, _ in everything] == ids
    assert (complete, all_of_them) == (False, True)
    assert {pending_part(partition_key(NAME, one)) for one in ids} == set(range(8))


def test_a_table_without_the_index_cannot_say_what_is_pending(backend: OnAws, store: Store) -> None:
    dynamodb = backend.clients["dynamodb"]
    dynamodb.update_table(
        TableName=backend.table_name,
        GlobalSecondaryIndexUpdates=[{"Delete": {"IndexName": "pending"}}],
    )

    with pytest.raises(StoreUnavailable, match="query failed with"):
        store.pending(before=1.0)


def test_a_claim_that_loses_every_race_gives_up(backend: OnAws, store: Store) -> None:
    brought_to("pending", store)

    def come_and_go() -> None:
        claimed(store, token="between")
        store.give_back(NAME, ID, token="between")

    for _ in range(4):
        backend.interrupt_next_claim(come_and_go)

    with pytest.raises(StoreUnavailable, match="another claimer at every try"):
        claimed(store)


# Clients.


def test_nothing_is_imported_before_the_first_call() -> None:
    program = (
        "import sys; from sekali.store import Store; from sekali.clock import SystemClock; "
        "Store('t', clock=SystemClock(), bucket='b'); "
        "print([name for name in ('boto3', 'botocore') if name in sys.modules])"
    )

    printed = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": "layers/sekali/python"},
        check=True,
        capture_output=True,
        text=True,
    ).stdout

    assert printed == "[]\n"


def test_each_client_is_built_once_when_it_is_needed(backend: OnAws) -> None:
    built: list[str] = []

    def build(service: Any) -> Any:  # Any: as `aws_client`
        built.append(service)
        return backend.client(service)

    store = Store(
        backend.table_name,
        clock=FrozenClock(),
        bucket=backend.bucket_name,
        client_factory=build,
    )
    store.record_many([outcome(str(number)) for number in range(20)])
    small = list(built)
    ended(store, result=LARGE)
    large = list(built)
    store.reset()
    row_in(store)

    assert (small, large) == (["dynamodb"], ["dynamodb", "s3"])
    assert built == ["dynamodb", "s3", "dynamodb", "s3"]


def test_a_client_gives_up_early() -> None:
    config = aws_client("dynamodb").meta.config

    assert (config.connect_timeout, config.read_timeout) == (1, 2)
    assert config.retries == {"mode": "standard", "total_max_attempts": 3}
    assert config.max_pool_connections >= 8


def test_a_missing_table_is_an_unavailable_store() -> None:
    store = Store("nowhere", clock=FrozenClock())

    with in_process(), pytest.raises(StoreUnavailable, match="ResourceNotFoundException"):
        row_in(store)


def test_a_server_that_is_not_there_is_an_unavailable_store() -> None:
    def unreachable(service: Any) -> Any:  # Any: as `aws_client`
        return boto3.client(
            service,
            endpoint_url="http://127.0.0.1:1",
            config=Config(retries={"total_max_attempts": 1}),
        )

    store = Store("t", clock=FrozenClock(), client_factory=unreachable)

    with pytest.raises(StoreUnavailable, match="record failed with EndpointConnectionError"):
        ended(store)


# Events.


def test_reads_and_accepted_writes_are_told(backend: OnAws) -> None:
    told: list[Event] = []
    store = Store(
        backend.table_name,
        clock=FrozenClock(),
        client_factory=backend.client,
        on_event=told.append,
    )

    store.record_many([outcome("1"), outcome("2")])
    store.record_many([Outcome(NAME, "1", "done", "same", 10, "second", DAY_SECONDS)])
    store.get_many([(NAME, "1"), (NAME, "absent"), (NAME, "2")])

    assert told == [StoreWritten(count=2), StoreRead(count=3)]
