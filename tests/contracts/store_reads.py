"""What every durable store does with many records, large results and little time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sekali.errors import ResultTooLarge, StoreUnavailable
from sekali.store_rows import POINTER_PREFIX, Accepted, DurableStore, Outcome, Rejected
from sekali.testing import FrozenClock
from tests.contracts.store_words import (
    DAY_SECONDS,
    ID,
    LARGE,
    NAME,
    StoreFixtures,
    claimed,
    ended,
    row_in,
)

if TYPE_CHECKING:
    from tests.contracts.store_backends import Backend


class ReadContract(StoreFixtures):
    """What was recorded is read back whole, and a fault stays where it is."""

    def test_many_outcomes_are_answered_in_order(self, store: DurableStore) -> None:
        ended(store, job_id="2", token="first", result=b"old")
        outcomes = [
            Outcome(NAME, str(number), "done", "same", 10, "mine", DAY_SECONDS, b"new")
            for number in range(25)
        ]

        answers = store.record_many(outcomes)

        expected: list[object] = [Accepted(10, b"new")] * 25
        expected[2] = Rejected(row_in(store, "2"))
        assert answers == expected

    def test_an_outcome_that_cannot_be_written_fails_alone(self, backend: Backend) -> None:
        store = backend.open(FrozenClock(), bucket=False)
        sizes = [1, 400_000, 1]
        outcomes = [
            Outcome(NAME, str(index), "done", "same", 10, "mine", DAY_SECONDS, b"x" * size)
            for index, size in enumerate(sizes)
        ]

        answers = store.record_many(outcomes)

        assert [type(answer) for answer in answers] == [Accepted, ResultTooLarge, Accepted]
        assert list(store.get_many([(NAME, "0"), (NAME, "1"), (NAME, "2")])) == [
            (NAME, "0"),
            (NAME, "2"),
        ]

    def test_nothing_asked_is_nothing_answered(self, store: DurableStore) -> None:
        assert (store.get_many([]), store.record_many([])) == ({}, [])

    def test_many_ids_are_read_at_once_and_absent_ones_left_out(
        self, store: DurableStore, clock: FrozenClock
    ) -> None:
        ended(store, job_id="expired", ttl_seconds=10.0)
        clock.sleep(12.0)
        store.record_many(
            [
                Outcome(NAME, str(number), "done", "same", 10, "mine", DAY_SECONDS, b"%d" % number)
                for number in range(120)
            ]
        )
        asked = [(NAME, str(number)) for number in range(230)]

        rows = store.get_many([*asked, *asked, (NAME, "expired")])

        assert {job: row.result for job, row in rows.items()} == {
            (NAME, str(number)): b"%d" % number for number in range(120)
        }

    def test_a_large_result_is_read_through_its_pointer(self, store: DurableStore) -> None:
        answer = ended(store, result=LARGE)

        row = row_in(store)
        assert isinstance(answer, Accepted)
        assert answer.stored == row.stored
        assert row.stored.startswith(POINTER_PREFIX)
        assert len(row.stored) < 300
        assert row.result == LARGE
        assert store.fetch(row.stored) == LARGE

    def test_a_rejection_shows_the_large_result_that_stands(self, store: DurableStore) -> None:
        ended(store, result=LARGE)

        answer = ended(store, token="second", result=LARGE.replace(b"x", b"y"))

        assert isinstance(answer, Rejected)
        assert answer.row.result == LARGE

    def test_a_pointer_can_be_recorded_for_another_id(self, store: DurableStore) -> None:
        ended(store, result=LARGE)
        pointer = row_in(store).stored

        ended(store, job_id="follower", token="", result=pointer)

        assert row_in(store, "follower").stored == pointer
        assert row_in(store, "follower").result == LARGE

    def test_a_large_result_without_a_bucket_is_refused_and_nothing_is_written(
        self, backend: Backend
    ) -> None:
        store = backend.open(FrozenClock(), bucket=False)

        with pytest.raises(ResultTooLarge, match="SEKALI_RESULTS_BUCKET, got 400002"):
            ended(store, result=LARGE)

        assert store.get_many([(NAME, ID)]) == {}

    def test_a_missing_object_fails_alone_and_leaves_the_record_final(
        self, backend: Backend, store: DurableStore
    ) -> None:
        ended(store, result=LARGE)
        ended(store, job_id="small", result=b"1")
        backend.forget_objects()

        rows = store.get_many([(NAME, ID), (NAME, "small")])
        answer = ended(store, token="second")

        assert rows[NAME, "small"].result == b"1"
        assert (rows[NAME, ID].status, rows[NAME, ID].points) == ("done", True)
        with pytest.raises(StoreUnavailable, match="fetch failed with NoSuchKey"):
            _ = rows[NAME, ID].result
        assert isinstance(answer, Rejected)
        assert answer.row.stored == rows[NAME, ID].stored

    @pytest.mark.parametrize("pointer", [b"s3:", b"s3:results/../secret", b"{}", b""])
    def test_a_pointer_that_is_not_ours_is_not_followed(
        self, store: DurableStore, pointer: bytes
    ) -> None:
        with pytest.raises(StoreUnavailable, match="a pointer that is not ours"):
            store.fetch(pointer)

    def test_nothing_is_sent_after_the_deadline(
        self, store: DurableStore, clock: FrozenClock
    ) -> None:
        past = clock.monotonic()

        with pytest.raises(StoreUnavailable, match="no time left"):
            store.get_many([(NAME, ID)], deadline=past)
        with pytest.raises(StoreUnavailable, match="no time left"):
            store.give_back(NAME, ID, token="mine", deadline=past)
        [answer] = store.record_many(
            [Outcome(NAME, ID, "done", "same", 10, "mine", DAY_SECONDS)], deadline=past
        )

        assert isinstance(answer, StoreUnavailable)
        assert store.get_many([(NAME, ID)]) == {}

    def test_a_call_within_its_deadline_answers_as_without(
        self, store: DurableStore, clock: FrozenClock
    ) -> None:
        soon = clock.monotonic() + 30.0
        outcome = Outcome(NAME, ID, "done", "same", 10, "mine", DAY_SECONDS, b"1")

        answers = store.record_many([outcome], deadline=soon)

        assert answers == [Accepted(10, b"1")]
        assert store.get_many([(NAME, ID)], deadline=soon)[NAME, ID].result == b"1"

    @pytest.mark.parametrize("ttl_seconds", [0.0, -1.0])
    def test_a_record_without_a_lifetime_is_refused(
        self, store: DurableStore, ttl_seconds: float
    ) -> None:
        with pytest.raises(ValueError, match="ttl_seconds must be above 0"):
            ended(store, ttl_seconds=ttl_seconds)
        with pytest.raises(ValueError, match="ttl_seconds must be above 0"):
            claimed(store, ttl_seconds=ttl_seconds)
