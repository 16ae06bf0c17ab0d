"""What every durable store does with outcomes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sekali.errors import KeyInvalid, StoreUnavailable
from sekali.store_rows import Accepted, DurableStore, Rejected, Row, Status, partition_key
from tests.contracts.store_words import (
    DAY_SECONDS,
    ID,
    NAME,
    Ending,
    StoreFixtures,
    brought_to,
    ended,
    fence_of,
    row_in,
)

if TYPE_CHECKING:
    from sekali.testing import FrozenClock
    from tests.contracts.store_backends import Backend


class OutcomeContract(StoreFixtures):
    """The first recorded outcome of an id is final."""

    def test_an_outcome_is_read_back_whole(self, store: DurableStore) -> None:
        answer = ended(store, result=b"\x00\xff{}", fence=1_794_000_000_000_001)

        assert answer == Accepted(fence=1_794_000_000_000_001, stored=b"\x00\xff{}")
        assert row_in(store) == Row(
            status="done",
            fence=1_794_000_000_000_001,
            token="mine",
            payload_hash="same",
            stored=b"\x00\xff{}",
            error=b"",
            deadline=0.0,
            expires=1_700_086_400.0,
            body=b"\x00\xff{}",
        )
        assert row_in(store).result == b"\x00\xff{}"

    def test_a_failure_is_read_back_with_its_error(self, store: DurableStore) -> None:
        ended(store, outcome="failed", error=b'{"why":"no such carrier"}')

        row = row_in(store)
        assert (row.status, row.error, row.result) == (
            "failed",
            b'{"why":"no such carrier"}',
            b"",
        )

    def test_an_empty_result_is_a_result(self, store: DurableStore) -> None:
        ended(store, result=b"")

        assert (row_in(store).status, row_in(store).result) == ("done", b"")

    @pytest.mark.parametrize("fence", [1, 10, 1_000])
    @pytest.mark.parametrize("second", ["done", "failed"])
    @pytest.mark.parametrize("first", ["done", "failed"])
    def test_the_first_recorded_outcome_is_final_for_every_fence(
        self, store: DurableStore, first: Ending, second: Ending, fence: int
    ) -> None:
        recorded = brought_to(first, store)

        answer = ended(store, outcome=second, fence=fence, token="second")

        assert answer == Rejected(recorded)
        assert row_in(store) == recorded

    @pytest.mark.parametrize("outcome", ["done", "failed"])
    @pytest.mark.parametrize("status", ["running", "pending"])
    def test_an_outcome_needs_no_claim_and_no_fence_to_be_recorded(
        self, store: DurableStore, status: Status, outcome: Ending
    ) -> None:
        brought_to(status, store)

        answer = ended(store, outcome=outcome, fence=1, token="another")

        assert fence_of(answer) == 1
        assert (row_in(store).status, row_in(store).token) == (outcome, "another")

    @pytest.mark.parametrize("rearm", [0, 2**53 - 1])
    @pytest.mark.parametrize("status", ["pending", "running", "done", "failed"])
    def test_another_payload_is_rejected_in_every_status(
        self, store: DurableStore, status: Status, rearm: int
    ) -> None:
        recorded = brought_to(status, store)

        answer = ended(store, payload_hash="other", rearm=rearm)

        assert answer == Rejected(recorded)
        assert row_in(store) == recorded

    @pytest.mark.parametrize("status", ["pending", "running", "done", "failed"])
    def test_an_expired_item_is_absent_for_an_outcome_even_of_another_payload(
        self, store: DurableStore, clock: FrozenClock, status: Status
    ) -> None:
        brought_to(status, store)
        clock.sleep(DAY_SECONDS + 1)

        answer = ended(store, payload_hash="other")

        assert fence_of(answer) == 10
        assert row_in(store).payload_hash == "other"

    def test_an_item_lives_through_the_second_it_expires_in(
        self, store: DurableStore, clock: FrozenClock
    ) -> None:
        recorded = brought_to("done", store)
        clock.sleep(DAY_SECONDS)

        answer = ended(store, token="second")

        assert answer == Rejected(recorded)
        assert row_in(store) == recorded

    def test_the_same_id_under_two_names_is_two_things(self, store: DurableStore) -> None:
        ended(store)

        assert store.get_many([("another", ID)]) == {}

    @pytest.mark.parametrize(
        "job_id", ["a/b", "{x}", "two words\nlines", "schön ✓", "~", "x" * 5_000, "ü" * 600]
    )
    def test_any_text_can_be_an_id(self, store: DurableStore, job_id: str) -> None:
        answer = ended(store, job_id=job_id)

        assert fence_of(answer) == 10
        assert row_in(store, job_id).status == "done"

    def test_a_long_id_never_meets_another(self, store: DurableStore) -> None:
        ended(store, job_id="x" * 5_000 + "1")
        stored_key = partition_key(NAME, "x" * 5_000 + "1").removeprefix(f"{NAME}/")

        assert store.get_many([(NAME, "x" * 5_000 + "2"), (NAME, stored_key)]) == {}

    @pytest.mark.parametrize("job_id", ["", "\ud800"])
    def test_an_id_that_cannot_be_stored_is_refused(self, store: DurableStore, job_id: str) -> None:
        with pytest.raises(KeyInvalid):
            ended(store, job_id=job_id)

    @pytest.mark.parametrize("outcome", ["done", "failed"])
    def test_an_outcome_whose_reply_was_lost_is_accepted_when_repeated(
        self, backend: Backend, store: DurableStore, outcome: Ending
    ) -> None:
        backend.lose_reply_next()
        with pytest.raises(StoreUnavailable):
            ended(store, outcome=outcome)

        answer = ended(store, outcome=outcome)

        assert answer == Accepted(fence=10, stored=row_in(store).stored, repeated=True)

    def test_a_settle_without_token_is_nobodys_repeat(self, store: DurableStore) -> None:
        ended(store, token="", fence=0, result=b"1")

        answer = ended(store, token="", fence=0, result=b"2")

        assert answer == Rejected(row_in(store))
        assert row_in(store).result == b"1"

    def test_a_failure_after_ones_own_lost_success_is_rejected_with_the_success(
        self, backend: Backend, store: DurableStore
    ) -> None:
        backend.lose_reply_next()
        with pytest.raises(StoreUnavailable):
            ended(store)

        answer = ended(store, outcome="failed")

        assert answer == Rejected(row_in(store))
        assert row_in(store).status == "done"

    def test_a_write_that_failed_changes_nothing_and_can_be_repeated(
        self, backend: Backend, store: DurableStore
    ) -> None:
        backend.fail_next()
        with pytest.raises(StoreUnavailable):
            ended(store)
        assert store.get_many([(NAME, ID)]) == {}

        answer = ended(store)

        assert answer == Accepted(fence=10, stored=b'{"by":"me"}')

    def test_a_throttled_call_says_so(self, backend: Backend, store: DurableStore) -> None:
        backend.throttle_next(2)

        with pytest.raises(StoreUnavailable, match="record failed with ThrottlingException"):
            ended(store)
        with pytest.raises(StoreUnavailable, match="read failed with ThrottlingException"):
            store.get_many([(NAME, ID)])

    @pytest.mark.parametrize("outcome", ["done", "failed"])
    @pytest.mark.parametrize("rearm", [10, 11])
    def test_a_redrive_replaces_the_failure_that_its_dead_letter_named(
        self, store: DurableStore, rearm: int, outcome: Ending
    ) -> None:
        brought_to("failed", store)

        answer = ended(store, outcome=outcome, token="second", fence=12, rearm=rearm)

        assert fence_of(answer) == 12
        assert (row_in(store).status, row_in(store).token) == (outcome, "second")

    def test_a_redrive_does_not_replace_a_later_failure(self, store: DurableStore) -> None:
        recorded = brought_to("failed", store)

        answer = ended(store, token="second", rearm=9)

        assert answer == Rejected(recorded)

    def test_a_redrive_does_not_replace_a_result(self, store: DurableStore) -> None:
        recorded = brought_to("done", store)

        answer = ended(store, token="second", rearm=2**53 - 1)

        assert answer == Rejected(recorded)

    @pytest.mark.parametrize("fence", [0, -1])
    def test_a_failure_without_a_fence_is_refused(self, store: DurableStore, fence: int) -> None:
        """It would be overruled by every redelivery, since none names a smaller fence."""
        with pytest.raises(ValueError, match="fence of a failure must be at least 1"):
            ended(store, outcome="failed", fence=fence)
