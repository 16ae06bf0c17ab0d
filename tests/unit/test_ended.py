"""What has ended is sent once, by whoever comes first: the batch's own thread or the other one."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from sekali.ended import Ended
from sekali.items import Item
from sekali.pulse import Pulse
from sekali.settling import delete
from tests.worker_world.world import HandPulse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

WAIT_SECONDS = 20.0


class Now:
    """As much of an invocation as is asked for its time."""

    def __init__(self, deadline: float = 1000.0) -> None:
        self.seconds, self.deadline = 100.0, deadline

    def now(self) -> float:
        return self.seconds


class Real(Now):
    """The same, with time that passes."""

    def now(self) -> float:
        self.seconds += 0.01
        return self.seconds


@pytest.fixture
def pulse() -> Iterator[Pulse]:
    one = Pulse("test-flush")
    yield one
    one.close()


def ended(name: str) -> Item:
    item = Item(raw={}, message_id=name)
    item.end("D")
    return item


def kept(
    conclude: Callable[[Sequence[Item]], None],
    time: Now,
    pulse: Pulse | None,
    *,
    after_seconds: float = 0.25,
) -> Ended:
    # The invocation is a stand-in that knows the time and nothing else.
    return Ended(
        conclude,
        invocation=time,  # type: ignore[arg-type]
        after_seconds=after_seconds,
        pulse=pulse,
    )


def test_work_is_sent_from_another_thread_while_a_body_runs_on(pulse: Pulse) -> None:
    sent, threads = threading.Event(), []

    def conclude(items: Sequence[Item]) -> None:
        threads.append((threading.current_thread().name, [one.message_id for one in items]))
        sent.set()

    one = kept(conclude, Real(), pulse, after_seconds=0.001)
    one.body_starts()
    one.body_ends(ended("first"))
    one.body_starts()

    assert sent.wait(WAIT_SECONDS)
    one.close()
    assert threads == [("test-flush", ["first"])]


def test_what_another_thread_is_sending_is_waited_for_and_sent_once(pulse: Pulse) -> None:
    begun, may_end = threading.Event(), threading.Event()
    sendings: list[list[str]] = []
    at_once: list[int] = []
    inside = threading.Semaphore(1)

    def conclude(items: Sequence[Item]) -> None:
        at_once.append(inside.acquire(blocking=False))
        begun.set()
        may_end.wait(WAIT_SECONDS)
        sendings.append([one.message_id for one in items])
        inside.release()

    one = kept(conclude, Real(), pulse, after_seconds=0.001)
    one.body_starts()
    one.body_ends(ended("first"))
    one.body_starts()
    assert begun.wait(WAIT_SECONDS)
    one.body_ends(ended("second"))
    threading.Timer(0.02, may_end.set).start()

    one.send()
    one.close()

    assert sendings == [["first"], ["second"]]
    assert at_once == [True, True]


def test_work_that_ends_while_other_work_is_sent_is_sent_too(pulse: Pulse) -> None:
    """Symptom looked for: a call that was asked for while one was under way was forgotten."""
    sent: list[str] = []
    changed = threading.Condition()

    def conclude(items: Sequence[Item]) -> None:
        with changed:
            sent.extend(one.message_id for one in items)
            changed.notify_all()

    one = kept(conclude, Real(), pulse, after_seconds=0.001)
    one.body_starts()
    names = [f"{number}" for number in range(300)]
    for name in names:
        one.body_starts()
        one.body_ends(ended(name))

    with changed:
        all_sent = changed.wait_for(lambda: len(sent) == len(names), WAIT_SECONDS)
    one.close()

    assert all_sent
    assert sent == names


def test_flush_that_fails_beside_a_record_is_left_to_the_thread_of_the_batch() -> None:
    tries: list[list[str]] = []

    def conclude(items: Sequence[Item]) -> None:
        tries.append([one.message_id for one in items])
        if len(tries) == 1:
            items[0].verdict = delete("done")
            raise ValueError("a defect")

    hand, time = HandPulse(), Now()
    one = kept(conclude, time, hand)
    one.body_starts()
    one.body_ends(ended("settled"))
    one.body_starts()
    one.body_ends(ended("open"))
    one.body_starts()
    time.seconds += 1
    with pytest.raises(ValueError, match="a defect"):
        hand.beat()

    one.send()

    assert tries == [["settled", "open"], ["open"]]


def test_long_wait_ends_before_the_deadline() -> None:
    sent: list[int] = []
    hand, time = HandPulse(), Now(deadline=110.0)
    one = kept(lambda items: sent.append(len(items)), time, hand, after_seconds=60.0)
    one.body_starts()
    one.body_ends(ended("first"))
    one.body_starts()

    early = hand.beat()
    time.seconds = 109.5
    hand.beat()

    assert early == pytest.approx([9.5])
    assert sent == [1]


def test_without_a_thread_work_waits_for_the_next_record_boundary() -> None:
    sent: list[int] = []
    time = Now()
    one = kept(lambda items: sent.append(len(items)), time, None)
    one.body_starts()
    one.body_ends(ended("first"))
    one.send_if_due()
    assert sent == []
    time.seconds += 0.25

    one.send_if_due()
    one.close()

    assert sent == [1]


def test_process_that_can_start_no_thread_goes_on_without(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    sent: list[int] = []
    full, time = Pulse("full"), Now()

    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    one = kept(lambda items: sent.append(len(items)), time, full)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", start)
        one.body_starts()
        one.body_ends(ended("first"))
        one.body_starts()
    time.seconds += 1
    one.send_if_due()
    one.close()
    full.close()

    assert sent == [1]
    assert len(full) == 0
    assert "can't start new thread" in caplog.text


def test_last_body_of_a_batch_wakes_nobody() -> None:
    hand = HandPulse()
    one = kept(lambda _: None, Now(), hand)

    one.body_starts()
    one.body_ends(ended("only"))
    one.send()
    one.close()

    assert hand.asked == []
