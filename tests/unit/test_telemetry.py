"""Events are frozen facts, and telemetry never decides about a job."""

from __future__ import annotations

import dataclasses
import logging

import pytest

from sekali.telemetry import events
from sekali.telemetry.hooks import Hooks

EVENTS = [
    item
    for item in vars(events).values()
    if isinstance(item, type) and issubclass(item, events.Event) and item is not events.Event
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.__name__)
def test_every_event_is_frozen_and_slotted(event: type[events.Event]) -> None:
    assert event.__dataclass_params__.frozen  # type: ignore[attr-defined]  # not in the stubs
    assert "__slots__" in vars(event)


def test_an_event_cannot_be_changed() -> None:
    event = events.Thawed(gap_seconds=3.0)

    with pytest.raises(dataclasses.FrozenInstanceError):
        event.gap_seconds = 0.0  # type: ignore[misc]  # the test does what mypy forbids


def test_every_hook_is_told_in_order() -> None:
    told: list[tuple[str, events.Event]] = []
    hooks = Hooks(
        lambda event: told.append(("one", event)), lambda event: told.append(("two", event))
    )
    event = events.StoreRead(count=2)

    hooks(event)

    assert told == [("one", event), ("two", event)]


def test_a_hook_that_raises_is_logged_with_its_traceback_and_stops_nobody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    told: list[events.Event] = []

    def broken(_: events.Event) -> None:
        raise KeyError("dimension")

    with caplog.at_level(logging.ERROR):
        Hooks(broken, told.append)(events.StoreRead(count=2))

    assert told == [events.StoreRead(count=2)]
    assert "failed on StoreRead" in caplog.text
    assert "KeyError: 'dimension'" in caplog.text


def test_what_ends_the_process_is_not_held_up_by_a_hook() -> None:
    def leaving(_: events.Event) -> None:
        raise SystemExit(1)

    with pytest.raises(SystemExit):
        Hooks(leaving)(events.StoreRead(count=1))


def test_no_hook_at_all_is_fine() -> None:
    Hooks()(events.StoreRead(count=1))
