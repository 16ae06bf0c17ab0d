"""How the durable store reads what is throttled, and how long it waits for an answer."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from sekali.clock import SystemClock
from sekali.errors import StoreUnavailable
from sekali.store import Store
from sekali.store_rows import Accepted, Outcome
from sekali.testing import FrozenClock
from tests.contracts.store_words import DAY_SECONDS, ID, NAME

if TYPE_CHECKING:
    from collections.abc import Mapping


def outcome(job_id: str) -> Outcome:
    return Outcome(NAME, job_id, "done", "same", 10, "mine", DAY_SECONDS, b"1")


class LeavingOver:
    """A table that answers some keys of each read and leaves the others over."""

    def __init__(self, answered: list[int]) -> None:
        self.answered = answered
        self.asked: list[Mapping[str, Any]] = []  # Any: a request of boto3

    def batch_get_item(self, *, RequestItems: Any) -> Any:  # noqa: N803  # Any: as boto3 has it
        self.asked.append(RequestItems["t"])
        keys = RequestItems["t"]["Keys"]
        count = self.answered.pop(0) if self.answered else 0
        items = [
            {
                "pk": key["pk"],
                "st": {"S": "pending"},
                "f": {"N": "1"},
                "tk": {"S": ""},
                "ph": {"S": ""},
                "deadline": {"N": "0"},
                "expires": {"N": "9999999999"},
            }
            for key in keys[:count]
        ]
        left = {"t": {"Keys": keys[count:]}} if keys[count:] else {}
        return {"Responses": {"t": items}, "UnprocessedKeys": left}


def leaving_over(answered: list[int]) -> tuple[Store, LeavingOver, list[float]]:
    table, pauses, clock = LeavingOver(answered), list[float](), FrozenClock()

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        clock.sleep(seconds)

    store = Store("t", clock=clock, client_factory=lambda _: table, sleep=sleep, jitter=lambda: 1.0)
    return store, table, pauses


def test_reads_are_consistent_and_ask_for_at_most_100_keys() -> None:
    # The three reads run side by side, so any of them may be the first.
    store, table, _ = leaving_over([100, 100, 100])

    rows = store.get_many([(NAME, str(number)) for number in range(250)])

    assert len(rows) == 250
    assert sorted(len(asked["Keys"]) for asked in table.asked) == [50, 100, 100]
    assert all(asked["ConsistentRead"] for asked in table.asked)


def test_what_a_read_leaves_over_is_asked_for_at_once_while_answers_come() -> None:
    store, table, pauses = leaving_over([4, 4, 2])

    rows = store.get_many([(NAME, str(number)) for number in range(10)])

    assert len(rows) == 10
    assert [len(asked["Keys"]) for asked in table.asked] == [10, 6, 2]
    assert pauses == []


def test_a_read_that_gets_nothing_pauses_longer_each_time() -> None:
    store, _, pauses = leaving_over([0, 0, 0, 0, 0, 0, 1])

    rows = store.get_many([(NAME, ID)])

    assert len(rows) == 1
    assert pauses == [0.05, 0.1, 0.2, 0.4, 0.8, 1.0]


@pytest.mark.parametrize(("given_seconds", "most_seconds"), [(None, 5.0), (0.5, 0.5)])
def test_a_throttled_read_ends_within_its_time(
    given_seconds: float | None, most_seconds: float
) -> None:
    store, _, pauses = leaving_over([])
    deadline = None if given_seconds is None else 1_000.0 + given_seconds

    with pytest.raises(StoreUnavailable, match="read failed with throttled"):
        store.get_many([(NAME, ID)], deadline=deadline)

    assert most_seconds / 2 < sum(pauses) < most_seconds


class Hanging:
    """A table that answers nothing about one id until it is released."""

    def __init__(self, hung: str) -> None:
        self.hung = hung
        self.released = threading.Event()

    def put_item(self, **request: Any) -> None:  # Any: a request of boto3
        if request["Item"]["pk"]["S"].endswith(self.hung):
            self.released.wait(60.0)


def test_the_caller_leaves_at_the_deadline_with_the_answers_that_came() -> None:
    table = Hanging("1")
    store = Store("t", clock=SystemClock(), client_factory=lambda _: table)
    started = time.monotonic()

    answers = store.record_many([outcome("0"), outcome("1"), outcome("2")], deadline=started + 0.1)
    waited_seconds = time.monotonic() - started
    table.released.set()

    assert [type(answer) for answer in answers] == [Accepted, StoreUnavailable, Accepted]
    assert str(answers[1]).endswith("record failed with no answer by the deadline")
    assert waited_seconds < 30.0


class Counting:
    """A table that counts how many writes are under way at once."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.now = self.most = 0
        self.full = threading.Event()

    def put_item(self, **_: object) -> None:
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
            if self.now == 8:
                self.full.set()
        self.full.wait(60.0)
        with self.lock:
            self.now -= 1


def test_the_writes_of_a_batch_go_out_side_by_side_eight_at_a_time() -> None:
    table = Counting()
    store = Store("t", clock=SystemClock(), client_factory=lambda _: table)

    answers = store.record_many([outcome(str(number)) for number in range(30)])

    assert (len(answers), table.most) == (30, 8)
