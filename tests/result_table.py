"""The table of results as the stack makes it, for the tests that make one themselves."""

from __future__ import annotations

from typing import Any

DEFINITION: dict[str, Any] = {  # Any: arguments of CreateTable
    "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
    "AttributeDefinitions": [
        {"AttributeName": "pk", "AttributeType": "S"},
        {"AttributeName": "pending", "AttributeType": "N"},
        {"AttributeName": "f", "AttributeType": "N"},
    ],
    "GlobalSecondaryIndexes": [
        {
            "IndexName": "pending",
            "KeySchema": [
                {"AttributeName": "pending", "KeyType": "HASH"},
                {"AttributeName": "f", "KeyType": "RANGE"},
            ],
            "Projection": {"ProjectionType": "KEYS_ONLY"},
        }
    ],
    "BillingMode": "PAY_PER_REQUEST",
}
