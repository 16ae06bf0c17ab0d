"""The stores that the contract suite and the histories run against, and ways to disturb them."""

from __future__ import annotations

import itertools
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import boto3
from botocore.exceptions import ClientError, ConnectTimeoutError, ReadTimeoutError
from moto import mock_aws

from sekali.store import Store
from sekali.testing.store import MemoryStore
from tests.result_table import DEFINITION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sekali.aws_clients import Service
    from sekali.clock import Clock
    from sekali.store_rows import DurableStore

CONDITION_FAILED = "ConditionalCheckFailedException"
WRITES = {"put_item", "update_item"}
CALLS = WRITES | {"batch_get_item", "put_object", "get_object"}

_serial = itertools.count()


class Backend(Protocol):
    """One place where records are kept, seen by any number of containers."""

    def open(self, clock: Clock, *, bucket: bool = True) -> DurableStore:
        """Return the store as a container with this clock has it."""
        ...

    def fail_next(self, count: int = 1) -> None:
        """Let the next writes fail without effect."""
        ...

    def lose_reply_next(self, count: int = 1) -> None:
        """Let the next accepted writes be applied and their replies be lost."""
        ...

    def throttle_next(self, count: int = 1) -> None:
        """Let the next calls of any kind be refused."""
        ...

    def interrupt_next_claim(self, action: Callable[[], object]) -> None:
        """Let something happen between what the next claim sees and what it writes."""
        ...

    def delete(self, name: str, job_id: str) -> None:
        """Delete a record, as the table does with an expired one some time later."""
        ...

    def forget_objects(self) -> None:
        """Delete all large results."""
        ...


class InMemory:
    """The fake of the library."""

    def __init__(self) -> None:
        self._stores: dict[bool, MemoryStore] = {}

    def open(self, clock: Clock, *, bucket: bool = True) -> DurableStore:
        store = self._stores.setdefault(bucket, MemoryStore(clock=clock, bucket=bucket))
        return store.seen_by(clock=clock)

    def fail_next(self, count: int = 1) -> None:
        self._stores[True].fail_next(count)

    def lose_reply_next(self, count: int = 1) -> None:
        self._stores[True].lose_reply_next(count)

    def throttle_next(self, count: int = 1) -> None:
        self._stores[True].throttle_next(count)

    def interrupt_next_claim(self, action: Callable[[], object]) -> None:
        # It sees and writes in one step, so this is as late as it can be.
        action()

    def delete(self, name: str, job_id: str) -> None:
        self._stores[True].delete(name, job_id)

    def forget_objects(self) -> None:
        self._stores[True].forget_objects()


@dataclass
class Faults:
    """What goes wrong with the next calls of a client, and every write that was sent."""

    failures: int = 0
    lost_replies: int = 0
    throttles: int = 0
    resends: int = 0
    interruptions: list[Callable[[], object]] = field(default_factory=list)
    # Any: requests and answers of boto3 are untyped dictionaries.
    sent: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def interrupt(self) -> None:
        """Run the next interruption, which is not interrupted itself."""
        if self.interruptions:
            action, *others = self.interruptions
            self.interruptions = []
            action()
            self.interruptions = others


class UnreliableClient:
    """A client of boto3 whose calls fail where botocore's own calls would."""

    def __init__(self, client: Any, faults: Faults) -> None:  # Any: boto3 has no types at run time
        self._client = client
        self._faults = faults

    def __getattr__(self, name: str) -> Any:  # Any: as the client's own attribute
        call = getattr(self._client, name)
        return partial(self._disturbed, name, call) if name in CALLS else call

    # Any: see `Faults.sent`
    def _disturbed(self, name: str, call: Callable[..., Any], **request: Any) -> Any:
        faults = self._faults
        if faults.throttles:
            faults.throttles -= 1
            throttled = {"Error": {"Code": "ThrottlingException", "Message": "slow down"}}
            raise ClientError(throttled, name)  # type: ignore[arg-type]  # a partial answer
        if name not in WRITES:
            return call(**request)
        if faults.failures:
            faults.failures -= 1
            raise ConnectTimeoutError(endpoint_url="http://table.invalid")
        if ":seen" in request.get("ExpressionAttributeValues", {}):
            faults.interrupt()
        if not request["ConditionExpression"]:
            # A mutant that lost its only comparison writes whatever is there.
            del request["ConditionExpression"]
        faults.sent.append((name, request))
        answer = call(**request)
        if faults.resends:
            faults.resends -= 1
            return call(**request)
        if faults.lost_replies:
            faults.lost_replies -= 1
            raise ReadTimeoutError(endpoint_url="http://table.invalid")
        return answer


class OnAws:
    """The store of the library on a fresh table behind a server of AWS interfaces."""

    def __init__(self, endpoint_url: str | None = None) -> None:
        self.faults = Faults()
        self.clients: dict[Service, Any] = {  # Any: boto3 has no types at run time
            "dynamodb": boto3.client("dynamodb", endpoint_url=endpoint_url),
            "s3": boto3.client("s3", endpoint_url=endpoint_url),
        }
        self.table_name = self.bucket_name = ""

    def renew(self) -> OnAws:
        """Start over with an empty table and an empty bucket."""
        self.faults = Faults()
        self.table_name = f"results-{next(_serial)}"
        self.bucket_name = f"results-bucket-{next(_serial)}"
        self.clients["dynamodb"].create_table(TableName=self.table_name, **DEFINITION)
        self.clients["s3"].create_bucket(
            Bucket=self.bucket_name,
            CreateBucketConfiguration={"LocationConstraint": "eu-west-1"},
        )
        return self

    def client(self, service: Service) -> UnreliableClient:
        """Return a client that obeys `faults`."""
        return UnreliableClient(self.clients[service], self.faults)

    def open(self, clock: Clock, *, bucket: bool = True) -> Store:
        return Store(
            self.table_name,
            clock=clock,
            bucket=self.bucket_name if bucket else None,
            client_factory=self.client,
            sleep=lambda _: None,
            jitter=lambda: 0.0,
        )

    def fail_next(self, count: int = 1) -> None:
        self.faults.failures += count

    def lose_reply_next(self, count: int = 1) -> None:
        self.faults.lost_replies += count

    def throttle_next(self, count: int = 1) -> None:
        self.faults.throttles += count

    def interrupt_next_claim(self, action: Callable[[], object]) -> None:
        self.faults.interruptions.append(action)

    def delete(self, name: str, job_id: str) -> None:
        key = {"pk": {"S": f"{name}/{job_id}"}}
        self.clients["dynamodb"].delete_item(TableName=self.table_name, Key=key)

    def forget_objects(self) -> None:
        listed = self.clients["s3"].list_objects_v2(Bucket=self.bucket_name)
        for entry in listed.get("Contents", []):
            self.clients["s3"].delete_object(Bucket=self.bucket_name, Key=entry["Key"])

    def item(self, key: str) -> dict[str, Any]:  # Any: an item's attributes are untyped
        """Return an item as it is stored."""
        answer = self.clients["dynamodb"].get_item(
            TableName=self.table_name, Key={"pk": {"S": key}}, ConsistentRead=True
        )
        item: dict[str, Any] = answer["Item"]  # Any: as above
        return item

    def resend(self, index: int = -1) -> bool:
        """Let a write that was sent arrive once more; return whether the table accepted it."""
        name, request = self.faults.sent[index]
        try:
            getattr(self.clients["dynamodb"], name)(**request)
        except ClientError as error:
            if error.response["Error"]["Code"] != CONDITION_FAILED:
                raise
            return False
        return True


@contextmanager
def in_process() -> Iterator[OnAws]:
    """Serve DynamoDB and S3 inside this process."""
    with mock_aws():
        yield OnAws()
