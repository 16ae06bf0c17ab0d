"""The verbs of the layer, called by hand and through Powertools' own class."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest
from aws_lambda_powertools.utilities.idempotency.exceptions import (
    IdempotencyItemNotFoundError,
    IdempotencyValidationError,
)
from aws_lambda_powertools.utilities.idempotency.persistence.base import BasePersistenceLayer

from sekali import LeaseLost
from sekali.errors import ResultUnencodable
from tests.contracts.idempotency import Held, fail, never
from tests.contracts.idempotency_benches import Answer, LayerBench

if TYPE_CHECKING:
    from redis import Redis

REQUEST = {"id": "a", "payload": 1}


@pytest.fixture
def bench(valkey: Redis, valkey_url: str) -> LayerBench:
    """Return a bench whose layer is bound to its function."""
    bench = LayerBench(valkey, valkey_url)
    bench.deliver("bound", lambda: 0)
    return bench


def test_finished_record_can_be_looked_up(bench: LayerBench) -> None:
    bench.deliver("a", lambda: 0)

    record = bench.layer.get_record(REQUEST)

    assert record is not None
    assert (record.status, record.response_data) == ("COMPLETED", "0")
    with pytest.raises(IdempotencyValidationError):
        bench.layer.get_record({"id": "a", "payload": 2})


def test_looking_up_claims_nothing(valkey: Redis, bench: LayerBench) -> None:
    """It claimed and gave back, so that a delivery in between was told to come again."""
    before = sorted(valkey.scan_iter())

    with pytest.raises(IdempotencyItemNotFoundError):
        bench.layer.get_record(REQUEST)

    assert sorted(valkey.scan_iter()) == before


def test_record_of_a_running_body_says_so(bench: LayerBench) -> None:
    with Held(bench, "a", lambda: "result"):
        record = bench.layer.get_record(REQUEST)

    assert record is not None
    assert record.status == "INPROGRESS"


def test_record_of_a_failed_body_is_not_found(bench: LayerBench) -> None:
    bench.deliver("a", fail)

    with pytest.raises(IdempotencyItemNotFoundError):
        bench.layer.get_record(REQUEST)


def test_request_without_a_key_has_no_record(bench: LayerBench) -> None:
    bench.deliver("a", lambda: "result")

    with pytest.warns(UserWarning, match="No idempotency key value found"):
        record = bench.layer.get_record({"payload": 1})

    assert record is None


def test_powertools_own_verbs_reach_the_same_record(bench: LayerBench) -> None:
    layer, own = bench.layer, BasePersistenceLayer

    own.save_inprogress(layer, REQUEST, 30_000)
    busy = bench.deliver("a", never)
    own.save_success(layer, REQUEST, {"n": 1})

    assert busy == Answer("in_progress")
    assert bench.deliver("a", never) == Answer("result", {"n": 1})
    found = own.get_record(layer, REQUEST)
    assert found is not None
    assert found.response_json_as_dict() == {"n": 1}


def test_powertools_own_verb_cannot_store_what_is_not_json(bench: LayerBench) -> None:
    BasePersistenceLayer.save_inprogress(bench.layer, REQUEST, 30_000)

    with pytest.raises(ResultUnencodable, match=r"float at \$.mean is not a finite number"):
        BasePersistenceLayer.save_success(bench.layer, REQUEST, {"mean": float("nan")})

    assert bench.deliver("a", lambda: "anew") == Answer("result", "anew")


def test_powertools_own_verb_gives_back(bench: LayerBench) -> None:
    BasePersistenceLayer.save_inprogress(bench.layer, REQUEST, 30_000)

    BasePersistenceLayer.delete_record(bench.layer, REQUEST, OSError())

    assert bench.deliver("a", lambda: "anew") == Answer("result", "anew")


def test_claim_cannot_be_finished_from_another_context(bench: LayerBench) -> None:
    bench.layer.save_inprogress(REQUEST)
    caught: list[Exception] = []

    def finish() -> None:
        try:
            bench.layer.save_success(REQUEST, "foreign")
        except LeaseLost as error:
            caught.append(error)

    thread = threading.Thread(target=finish)
    thread.start()
    thread.join()

    assert len(caught) == 1
    bench.layer.save_success(REQUEST, "own")
    assert bench.deliver("a", never) == Answer("result", "own")
