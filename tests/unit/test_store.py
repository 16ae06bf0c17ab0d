"""The durable store keeps its contract on DynamoDB's interface and in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.contracts.store import StoreContract
from tests.contracts.store_backends import InMemory, OnAws, in_process

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def aws() -> Iterator[OnAws]:
    with in_process() as server:
        yield server


class TestStoreOnDynamo(StoreContract):
    @pytest.fixture
    def backend(self, aws: OnAws) -> OnAws:
        return aws.renew()


class TestMemoryStore(StoreContract):
    @pytest.fixture
    def backend(self) -> InMemory:
        return InMemory()
