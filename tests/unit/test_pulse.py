"""One thread calls what is due, and quick invocations do not wake it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from sekali.pulse import Pulse

if TYPE_CHECKING:
    from collections.abc import Iterator

WAIT_SECONDS = 10.0
NEVER_SECONDS = 3600.0


@pytest.fixture
def pulse() -> Iterator[Pulse]:
    one = Pulse()
    yield one
    one.close()


def test_beat_is_called_when_due_and_again_after_what_it_returns(pulse: Pulse) -> None:
    beats = threading.Semaphore(0)

    def beat() -> float:
        beats.release()
        return 0.001

    pulse.add(beat, after_seconds=0.001)

    assert all(beats.acquire(timeout=WAIT_SECONDS) for _ in range(3))


def test_what_is_due_sooner_is_called_first(pulse: Pulse) -> None:
    called = threading.Event()

    def beat() -> float:
        called.set()
        return NEVER_SECONDS

    pulse.add(lambda: NEVER_SECONDS, after_seconds=NEVER_SECONDS)
    pulse.add(beat, after_seconds=0.001)

    assert called.wait(WAIT_SECONDS)


def test_all_beats_share_one_thread_that_outlives_them(pulse: Pulse) -> None:
    before = set(threading.enumerate())

    def beat() -> float:
        return NEVER_SECONDS

    for _ in range(3):
        pulse.add(beat, after_seconds=NEVER_SECONDS)
        pulse.remove(beat)

    names = [thread.name for thread in set(threading.enumerate()) - before]
    assert names.count("sekali-heartbeat") == 1


def test_whoever_removes_a_beat_waits_for_its_end_and_it_is_not_called_again(pulse: Pulse) -> None:
    begun, may_end = threading.Event(), threading.Event()
    ended: list[bool] = []

    def beat() -> float:
        begun.set()
        may_end.wait(WAIT_SECONDS)
        ended.append(True)
        return 0.0

    pulse.add(beat, after_seconds=0.0)
    assert begun.wait(WAIT_SECONDS)
    threading.Timer(0.02, may_end.set).start()

    pulse.remove(beat)

    assert ended == [True]


def test_beat_may_remove_itself(pulse: Pulse) -> None:
    removed = threading.Event()

    def beat() -> float:
        pulse.remove(beat)
        removed.set()
        return 0.0

    pulse.add(beat, after_seconds=0.0)

    assert removed.wait(WAIT_SECONDS)


def test_beat_that_raises_keeps_no_other_from_being_called(
    pulse: Pulse, caplog: pytest.LogCaptureFixture
) -> None:
    called = threading.Event()

    def broken() -> float:
        raise ValueError("broken")

    def beat() -> float:
        called.set()
        return NEVER_SECONDS

    pulse.add(broken, after_seconds=0.0)
    pulse.add(beat, after_seconds=0.01)

    assert called.wait(WAIT_SECONDS)
    assert "sekali-heartbeat: a call failed and is not repeated" in caplog.text


def test_beat_that_leaves_its_thread_keeps_nobody_waiting(
    pulse: Pulse, caplog: pytest.LogCaptureFixture
) -> None:
    """Symptom: `sys.exit` in an `on_lost` hook ended the thread, and the invocation waited on."""
    begun, called = threading.Event(), threading.Event()

    def leaving() -> float:
        begun.set()
        raise SystemExit(1)

    def beat() -> float:
        called.set()
        return NEVER_SECONDS

    pulse.add(leaving, after_seconds=0.0)
    assert begun.wait(WAIT_SECONDS)
    remover = threading.Thread(target=pulse.remove, args=(leaving,), daemon=True)
    remover.start()
    remover.join(WAIT_SECONDS)
    pulse.add(beat, after_seconds=0.0)

    assert not remover.is_alive()
    assert called.wait(WAIT_SECONDS)
    assert "sekali-heartbeat: a call failed and is not repeated" in caplog.text


def test_call_that_is_asked_for_while_one_is_under_way_is_not_forgotten(pulse: Pulse) -> None:
    calls = threading.Semaphore(0)

    def beat() -> float:
        calls.release()
        pulse.add(again, after_seconds=0.0)
        return NEVER_SECONDS

    def again() -> float:
        pulse.add(again, after_seconds=0.001)
        calls.release()
        return NEVER_SECONDS

    pulse.add(beat, after_seconds=0.0)

    assert all(calls.acquire(timeout=WAIT_SECONDS) for _ in range(4))


def test_thread_ends_when_the_pulse_is_closed() -> None:
    pulse, before = Pulse(), set(threading.enumerate())
    pulse.add(lambda: NEVER_SECONDS, after_seconds=NEVER_SECONDS)
    started = set(threading.enumerate()) - before
    (thread,) = [one for one in started if one.name == "sekali-heartbeat"]

    pulse.close()

    assert not thread.is_alive()
