"""What is kept is exported before the freeze, and never at the price of what is settled."""

from __future__ import annotations

import pytest

from sekali.telemetry.events import InvocationEnded, StoreRead
from sekali.telemetry.opentelemetry_metrics import OpenTelemetryFlush


class Provider:
    """A provider that notes how long it may take."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def force_flush(self, timeout_millis: int) -> None:
        self.asked.append(timeout_millis)


@pytest.mark.parametrize(("remaining", "allowed"), [(60.0, 2000), (1.0, 500), (0.0, 0)])
def test_flush_takes_two_seconds_at_most_and_half_of_what_is_left(
    remaining: float, allowed: int
) -> None:
    provider = Provider()

    OpenTelemetryFlush(provider)(InvocationEnded(remaining_seconds=remaining))

    assert provider.asked == [allowed]


def test_nothing_is_flushed_within_an_invocation() -> None:
    provider = Provider()

    OpenTelemetryFlush(provider)(StoreRead(count=1))

    assert provider.asked == []


def test_provider_that_has_nothing_to_flush_is_left_alone() -> None:
    OpenTelemetryFlush(object())(InvocationEnded())
