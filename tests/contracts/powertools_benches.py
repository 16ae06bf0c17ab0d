"""Powertools' own stores behind the same bench as ours, to show where they differ."""

from __future__ import annotations

import json
import warnings
from typing import TYPE_CHECKING, Any, Protocol

from aws_lambda_powertools.utilities.idempotency import (
    DynamoDBPersistenceLayer,
    IdempotencyConfig,
    idempotent_function,
)
from aws_lambda_powertools.utilities.idempotency.persistence.cache import CachePersistenceLayer
from redis import Redis

from tests.contracts.idempotency_benches import FunctionBench
from tests.worker_kit import Context

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.idempotency.persistence.base import BasePersistenceLayer
    from mypy_boto3_dynamodb.client import DynamoDBClient

TABLE = "powertools-idempotency"
PAST_MILLISECONDS = 1


class Store(Protocol):
    """One of Powertools' stores, and the means to see and age what it holds."""

    @property
    def layer(self) -> BasePersistenceLayer:
        """Return the store as Powertools' decorators take it."""
        ...

    def records(self) -> list[dict[str, Any]]:  # Any: a record's fields
        """Return every record."""
        ...

    def end_claims(self) -> None:
        """Let every claim be over, as its time would."""
        ...


class CacheStore:
    """`CachePersistenceLayer` over a real Valkey."""

    def __init__(self, url: str) -> None:
        self._client = Redis.from_url(url, decode_responses=True)
        # Any: its protocol of a client names fewer arguments than redis-py takes.
        client: Any = self._client
        with warnings.catch_warnings():
            # The new name is an alias of the old one, whose use is deprecated.
            warnings.simplefilter("ignore", DeprecationWarning)
            self.layer = CachePersistenceLayer(client=client)

    def records(self) -> list[dict[str, Any]]:  # Any: a record's fields
        return [json.loads(self._client.get(key) or "{}") for key in self._keys()]

    def end_claims(self) -> None:
        for key in self._keys():
            record = json.loads(self._client.get(key) or "{}")
            record["in_progress_expiration"] = PAST_MILLISECONDS
            self._client.set(key, json.dumps(record), keepttl=True)

    def _keys(self) -> list[str]:
        return [key for key in self._client.scan_iter() if not key.endswith(":lock")]


class TableStore:
    """`DynamoDBPersistenceLayer` over a table of moto."""

    def __init__(self, dynamodb: DynamoDBClient) -> None:
        self._dynamodb = dynamodb
        dynamodb.create_table(
            TableName=TABLE,
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
        self.layer = DynamoDBPersistenceLayer(TABLE, boto3_client=dynamodb)

    def records(self) -> list[dict[str, Any]]:  # Any: a record's fields
        items = self._dynamodb.scan(TableName=TABLE)["Items"]
        return [{name: next(iter(one.values())) for name, one in item.items()} for item in items]

    def end_claims(self) -> None:
        for item in self._dynamodb.scan(TableName=TABLE)["Items"]:
            item["in_progress_expiration"] = {"N": str(PAST_MILLISECONDS)}
            self._dynamodb.put_item(TableName=TABLE, Item=item)


class PowertoolsBench(FunctionBench):
    """A function made idempotent by one of Powertools' stores, with a Lambda context or without."""

    def __init__(
        self,
        store: Store,
        *,
        context: bool = True,
        **config: Any,  # Any: arguments of IdempotencyConfig
    ) -> None:
        self.store = store
        given = IdempotencyConfig(event_key_jmespath="id", **config)
        if context:
            # Any: it has as much as Powertools reads of a context.
            lambda_context: Any = Context()
            given.register_lambda_context(lambda_context)
        self.call = idempotent_function(
            self.run, data_keyword_argument="request", config=given, persistence_store=store.layer
        )
