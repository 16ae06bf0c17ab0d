"""Words in which the contract of a durable store is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypedDict, Unpack

import pytest

from sekali.store_rows import Answer, DurableStore, Rejected, Row, Status
from sekali.testing import FrozenClock

if TYPE_CHECKING:
    from tests.contracts.store_backends import Backend

NAME = "monthly-delays"
ID = "order-7"
DAY_SECONDS = 86_400.0
LARGE = b'"' + b"x" * 400_000 + b'"'

Ending = Literal["done", "failed"]


class Words(TypedDict, total=False):
    """Arguments of `record`, where they differ from those of `ended`."""

    job_id: str
    outcome: Ending
    payload_hash: str
    fence: int
    token: str
    ttl_seconds: float
    result: bytes
    error: bytes
    rearm: int


def ended(store: DurableStore, **words: Unpack[Words]) -> Answer:
    job_id = words.pop("job_id", ID)
    given: Words = {
        "outcome": "done",
        "payload_hash": "same",
        "fence": 10,
        "token": "mine",
        "ttl_seconds": DAY_SECONDS,
        "result": b'{"by":"me"}',
    }
    given.update(words)
    if given["outcome"] == "failed":
        given["result"] = b""
        given.setdefault("error", b'{"why":"it broke"}')
    return store.record(
        NAME,
        job_id,
        outcome=given["outcome"],
        payload_hash=given["payload_hash"],
        fence=given["fence"],
        token=given["token"],
        ttl_seconds=given["ttl_seconds"],
        result=given["result"],
        error=given.get("error", b""),
        rearm=given.get("rearm", 0),
    )


def claimed(
    store: DurableStore,
    *,
    token: str = "mine",
    payload_hash: str = "same",
    remaining_seconds: float = 60.0,
    ttl_seconds: float = DAY_SECONDS,
    rearm: int = 0,
) -> Answer:
    return store.claim(
        NAME,
        ID,
        payload_hash=payload_hash,
        token=token,
        remaining_seconds=remaining_seconds,
        ttl_seconds=ttl_seconds,
        rearm=rearm,
    )


def brought_to(status: Status, store: DurableStore, *, token: str = "first") -> Row:
    """Bring the id into a status, by the hand of `token`."""
    if status in {"pending", "running"}:
        claimed(store, token=token)
    if status == "pending":
        store.give_back(NAME, ID, token=token)
    if status == "done":
        ended(store, token=token, result=b'{"by":"first"}')
    if status == "failed":
        ended(store, token=token, outcome="failed")
    return row_in(store)


def row_in(store: DurableStore, job_id: str = ID) -> Row:
    return store.get_many([(NAME, job_id)])[NAME, job_id]


def fence_of(answer: Answer) -> int:
    if isinstance(answer, Rejected):
        raise TypeError(f"expected an accepted write, got {answer!r}")
    return answer.fence


class StoreFixtures:
    """Inherit it and give a `backend`."""

    @pytest.fixture
    def clock(self) -> FrozenClock:
        return FrozenClock()

    @pytest.fixture
    def store(self, backend: Backend, clock: FrozenClock) -> DurableStore:
        return backend.open(clock)
