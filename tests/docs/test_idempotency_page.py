"""docs/idempotency-layer.md says what the layer does, and its snippets run."""

from __future__ import annotations

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from aws_lambda_powertools.utilities.idempotency.exceptions import (
    IdempotencyAlreadyInProgressError,
    IdempotencyPersistenceLayerError,
    IdempotencyValidationError,
)

from sekali import LeaseLost, warm
from tests.contracts.idempotency import never
from tests.contracts.idempotency_benches import DEADLINE_SECONDS, end_leases
from tests.worker_kit import Context

if TYPE_CHECKING:
    from collections.abc import Iterator

    from redis import Redis

    Names = dict[str, Any]  # Any: whatever the page defines

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "idempotency-layer.md").read_text(encoding="utf-8")
ORDER = {"id": "order-7", "amount": 30}


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch, valkey: Redis, valkey_url: str) -> Iterator[Names]:
    """Run the page's snippets in the environment that it asks for."""
    assert valkey.dbsize() == 0
    monkeypatch.setenv("SEKALI_CACHE_URL", valkey_url)
    monkeypatch.setenv("SEKALI_DURABLE_MODE", "redis")
    warm.reset()
    defined: Names = {"__name__": "page", "send_to_bank": lambda amount: f"sent {amount}"}
    for code in re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL):
        exec(compile(code, "idempotency-layer.md", "exec"), defined)  # noqa: S102  the page's own words
    yield defined
    warm.reset()


def test_the_snippets_of_the_page_run(names: Names) -> None:
    names["send_to_bank"] = never

    answers = [names["charge"](order=ORDER), names["handler"](ORDER, Context())]

    assert answers == ["sent 30", "sent 30"]
    with pytest.raises(IdempotencyValidationError):
        names["charge"](order={**ORDER, "amount": 31})


def test_the_timeline_of_the_page_is_true(valkey: Redis, names: Names) -> None:
    charge, order = names["charge"], {"id": "frozen", "amount": 1}
    frozen, thaw = threading.Event(), threading.Event()

    def send_of_a(_: int) -> str:
        frozen.set()
        assert thaw.wait(DEADLINE_SECONDS)
        return "A's result"

    names["send_to_bank"] = send_of_a
    with ThreadPoolExecutor(1) as pool:
        a = pool.submit(charge, order=order)
        assert frozen.wait(DEADLINE_SECONDS)
        with pytest.raises(IdempotencyAlreadyInProgressError):
            charge(order=order)
        end_leases(valkey)
        names["send_to_bank"] = lambda _: "C's result"
        c = charge(order=order)
        thaw.set()
        with pytest.raises(IdempotencyPersistenceLayerError) as caught:
            a.result(DEADLINE_SECONDS)

    assert isinstance(caught.value.__cause__, LeaseLost)
    assert c == charge(order=order) == "C's result"


def test_round_trips_are_as_the_page_counts_them(names: Names) -> None:
    shared = warm.container().shared
    counts = [shared.flushes]

    for _ in range(2):
        names["charge"](order={"id": "counted", "amount": 1})
        counts.append(shared.flushes)

    assert [counts[1] - counts[0], counts[2] - counts[1]] == [2, 1]


@pytest.mark.usefixtures("names")
def test_numbers_of_the_page_are_those_of_the_settings() -> None:
    settings = warm.container().settings

    assert settings.lease_seconds == 12
    assert PAGE.count("12 s") == 2
    assert settings.retention_seconds == 345_600
    assert (PAGE.count("345,600"), PAGE.count("345_600")) == (1, 1)


def test_the_tests_that_the_page_names_exist() -> None:
    named = re.findall(r"`(tests/[^`]+)`", PAGE)

    assert named
    assert [path for path in named if not (ROOT / path).exists()] == []
