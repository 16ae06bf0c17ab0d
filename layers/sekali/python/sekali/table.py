"""Ask the durable table: one conditional write, one consistent read of many items."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, cast

from sekali.aws_faults import faults_of
from sekali.conditions import used
from sekali.errors import StoreUnavailable
from sekali.store_rows import PENDING_INDEX, PENDING_PARTS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sekali.clock import Clock
    from sekali.conditions import Condition
    from sekali.side_by_side import SideBySide
    from sekali.store_rows import Item

KEYS_PER_READ = 100
"""How many items one BatchGetItem may ask for."""

_READ_BUDGET_SECONDS = 5.0
_FIRST_PAUSE_SECONDS = 0.05
_LONGEST_PAUSE_SECONDS = 1.0


class TableClient(Protocol):
    """Be the part of boto3's DynamoDB client that is used here."""

    def put_item(self, **request: object) -> object:
        """Write a whole item."""
        ...

    def update_item(self, **request: object) -> object:
        """Change an item."""
        ...

    # Any: as below.
    def query(self, **request: object) -> Mapping[str, Any]:
        """Read a part of an index page by page."""
        ...

    # Any: boto3's answers are dictionaries whose types depend on the call.
    def batch_get_item(self, **request: object) -> Mapping[str, Any]:
        """Read many items."""
        ...


class Table:
    """Speak to one table of DynamoDB; the client's own retries are the only ones of a write."""

    def __init__(
        self,
        name: str,
        client: Callable[[], TableClient],
        *,
        calls: SideBySide,
        clock: Clock,
        sleep: Callable[[float], None],
        jitter: Callable[[], float],
    ) -> None:
        """Name the table and how to get the client when it is first needed."""
        self._name = name
        self._client = client
        self._calls = calls
        self._clock = clock
        self._sleep = sleep
        self._jitter = jitter

    def put(
        self,
        operation: str,
        item: Item,
        *,
        condition: Condition,
        values: Mapping[str, object],
        deadline: float | None,
    ) -> Mapping[str, Any] | None:  # Any: see `Item`
        """Replace an item under a condition.

        Returns:
            None where it was accepted, else the item that refused it, empty where there is none.
        """
        request = self._conditional(str(condition), values)
        self._calls.in_time(operation, deadline)
        return _old_item(operation, self._client().put_item, Item=item, **request)

    def update(
        self,
        operation: str,
        key: Item,
        *,
        update: str,
        condition: Condition,
        values: Mapping[str, object],
        deadline: float | None,
    ) -> Mapping[str, Any] | None:  # Any: see `Item`
        """Change an item under a condition; returns as `put` does."""
        request = self._conditional(str(condition), values, update)
        self._calls.in_time(operation, deadline)
        return _old_item(
            operation, self._client().update_item, Key=key, UpdateExpression=update, **request
        )

    def read(self, keys: Sequence[str], *, deadline: float | None) -> list[Item]:
        """Read up to 100 items consistently; what the table leaves over is asked for again.

        A pause follows only where nothing came: a large answer is cut at 16 MB without any
        throttling.

        Raises:
            StoreUnavailable: items were left over at the deadline, or after five seconds.
        """
        give_up_at = self._clock.monotonic() + _READ_BUDGET_SECONDS
        pause_seconds = _FIRST_PAUSE_SECONDS
        found: list[Item] = []
        left: object = [{"pk": {"S": key}} for key in keys]
        while left:
            self._calls.in_time("read", deadline)
            with faults_of("read"):
                answer = self._client().batch_get_item(
                    RequestItems={self._name: {"Keys": left, "ConsistentRead": True}}
                )
            got = answer.get("Responses", {}).get(self._name, [])
            found.extend(got)
            left = answer.get("UnprocessedKeys", {}).get(self._name, {}).get("Keys", [])
            if left and not got:
                self._pause(pause_seconds, give_up_at if deadline is None else deadline)
                pause_seconds = min(2 * pause_seconds, _LONGEST_PAUSE_SECONDS)
        return found

    def pending(
        self, *, before: float, most: int, deadline: float | None
    ) -> tuple[list[Item], bool]:
        """Read the index of pending items, part by part, until `most` are found.

        Returns:
            What was found, the longest pending first, and whether that is all there is. It is not
            where the budget was spent first.
        """
        give_up_at = self._clock.monotonic() + _READ_BUDGET_SECONDS
        found: list[Item] = []
        complete = True
        for part in range(PENDING_PARTS):
            items, ended = self._pending_part(part, before, most, give_up_at, deadline)
            found.extend(items)
            complete = complete and ended
        found.sort(key=lambda item: int(item["f"]["N"]))
        return found[:most], complete and len(found) <= most

    def _pending_part(
        self, part: int, before: float, most: int, give_up_at: float, deadline: float | None
    ) -> tuple[list[Item], bool]:
        found: list[Item] = []
        request: dict[str, object] = {
            "TableName": self._name,
            "IndexName": PENDING_INDEX,
            "KeyConditionExpression": "pending = :part AND f < :before",
            "ExpressionAttributeValues": {
                ":part": {"N": str(part)},
                ":before": {"N": str(int(before * 1_000_000))},
            },
        }
        while True:
            self._calls.in_time("query", deadline)
            with faults_of("query"):
                answer = self._client().query(**request)
            found.extend(answer.get("Items", []))
            last = answer.get("LastEvaluatedKey")
            if not last:
                return found, True
            if len(found) > most or self._clock.monotonic() >= give_up_at:
                return found, False
            request["ExclusiveStartKey"] = last

    def _conditional(
        self, condition: str, values: Mapping[str, object], update: str = ""
    ) -> dict[str, object]:
        request: dict[str, object] = {
            "TableName": self._name,
            "ConditionExpression": condition,
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }
        mentioned = used(f"{condition} {update}", values)
        if mentioned:
            request["ExpressionAttributeValues"] = mentioned
        return request

    def _pause(self, longest_seconds: float, give_up_at: float) -> None:
        # At least half of it: what is throttled must not be asked at once again.
        seconds = longest_seconds * (0.5 + 0.5 * self._jitter())
        if self._clock.monotonic() + seconds >= give_up_at:
            raise StoreUnavailable("read", "throttled")
        self._sleep(seconds)


def _old_item(
    operation: str, send: Callable[..., object], **request: object
) -> Mapping[str, Any] | None:  # Any: see `Item`
    from botocore.exceptions import ClientError

    with faults_of(operation):
        try:
            send(**request)
        except ClientError as error:
            if error.response["Error"]["Code"] != "ConditionalCheckFailedException":
                raise
            # The response of this code, and of no other, also holds the item.
            return cast("Mapping[str, Any]", error.response.get("Item", {}))
    return None
