"""What every durable store does with claims while the shared cache is away."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sekali.errors import StoreUnavailable
from sekali.store_rows import Accepted, Answer, DurableStore, Rejected, Status
from sekali.testing import FrozenClock
from tests.contracts.store_words import (
    DAY_SECONDS,
    ID,
    NAME,
    StoreFixtures,
    brought_to,
    claimed,
    ended,
    fence_of,
    row_in,
)

if TYPE_CHECKING:
    from tests.contracts.store_backends import Backend


class ClaimContract(StoreFixtures):
    """At most one table claim of an id is in its time."""

    def test_a_claim_of_a_free_id_is_accepted_with_a_fence_from_the_clock(
        self, store: DurableStore
    ) -> None:
        answer = claimed(store, remaining_seconds=60.0)

        row = row_in(store)
        assert answer == Accepted(fence=1_700_000_000_000_000)
        assert (row.status, row.token, row.deadline, row.expires) == (
            "running",
            "mine",
            1_700_000_062.0,
            1_700_086_400.0,
        )

    def test_a_claim_within_the_time_of_another_is_rejected(
        self, store: DurableStore, clock: FrozenClock
    ) -> None:
        running = brought_to("running", store)
        clock.sleep(62.0)

        answer = claimed(store, token="second")

        assert answer == Rejected(running)
        assert row_in(store) == running

    def test_a_claim_that_ran_out_is_taken_over_with_a_greater_fence(
        self, store: DurableStore, clock: FrozenClock
    ) -> None:
        running = brought_to("running", store)
        clock.sleep(62.5)

        answer = claimed(store, token="second")

        assert fence_of(answer) > running.fence
        assert (row_in(store).token, row_in(store).fence) == ("second", fence_of(answer))

    def test_a_claimer_whose_clock_is_behind_still_gets_a_greater_fence(
        self, backend: Backend, store: DurableStore
    ) -> None:
        given_back = brought_to("pending", store)
        behind = backend.open(FrozenClock(wall=1_700_000_000.0 - 900.0))

        answer = claimed(behind, token="second")

        assert answer == Accepted(fence=given_back.fence + 1)

    def test_a_claim_has_a_greater_fence_than_one_that_came_and_went_in_between(
        self, backend: Backend, store: DurableStore
    ) -> None:
        brought_to("pending", store)
        between: list[Answer] = []

        def come_and_go() -> None:
            between.append(claimed(store, token="between"))
            store.give_back(NAME, ID, token="between")

        backend.interrupt_next_claim(come_and_go)
        answer = claimed(store)

        assert fence_of(answer) > fence_of(between[0])

    def test_a_claim_whose_reply_was_lost_can_be_repeated_at_once(
        self, backend: Backend, store: DurableStore
    ) -> None:
        backend.lose_reply_next()
        with pytest.raises(StoreUnavailable):
            claimed(store)

        answer = claimed(store)

        assert answer == Accepted(fence=row_in(store).fence, repeated=True)
        assert row_in(store).token == "mine"

    def test_ones_own_claim_can_be_prolonged_with_a_greater_fence(
        self, store: DurableStore, clock: FrozenClock
    ) -> None:
        first = claimed(store)
        clock.sleep(10.0)

        answer = claimed(store)

        assert fence_of(answer) > fence_of(first)
        assert row_in(store).deadline == 1_700_000_072.0

    def test_a_pending_id_is_claimed_at_once(self, store: DurableStore) -> None:
        brought_to("pending", store)

        answer = claimed(store, token="second")

        assert isinstance(answer, Accepted)
        assert row_in(store).status == "running"

    @pytest.mark.parametrize("token", ["first", "second"])
    @pytest.mark.parametrize("status", ["done", "failed"])
    def test_what_is_final_is_never_claimed_again(
        self, store: DurableStore, status: Status, token: str
    ) -> None:
        recorded = brought_to(status, store)

        answer = claimed(store, token=token)

        assert answer == Rejected(recorded)
        assert row_in(store) == recorded

    def test_a_redriven_failure_can_be_claimed_once(self, store: DurableStore) -> None:
        failed = brought_to("failed", store)

        first = claimed(store, token="second", rearm=failed.fence)
        second = claimed(store, token="third", rearm=failed.fence)

        assert fence_of(first) > failed.fence
        assert second == Rejected(row_in(store))

    def test_a_redrive_claims_no_later_failure_and_no_result(self, store: DurableStore) -> None:
        failed = brought_to("failed", store)
        done = ended(store, job_id="done")

        later = claimed(store, token="second", rearm=failed.fence - 1)
        never = store.claim(
            NAME,
            "done",
            payload_hash="same",
            token="second",
            remaining_seconds=60.0,
            ttl_seconds=DAY_SECONDS,
            rearm=fence_of(done),
        )

        assert later == Rejected(failed)
        assert never == Rejected(row_in(store, "done"))

    @pytest.mark.parametrize("status", ["pending", "running", "done", "failed"])
    def test_another_payload_is_never_claimed(
        self, store: DurableStore, clock: FrozenClock, status: Status
    ) -> None:
        recorded = brought_to(status, store)
        clock.sleep(3_600.0)

        answer = claimed(store, token="first", payload_hash="other", rearm=2**53 - 1)

        assert answer == Rejected(recorded)
        assert row_in(store) == recorded

    @pytest.mark.parametrize("status", ["pending", "running", "done", "failed"])
    def test_an_expired_item_is_absent_for_a_claim_even_of_another_payload(
        self, store: DurableStore, clock: FrozenClock, status: Status
    ) -> None:
        brought_to(status, store)
        clock.sleep(DAY_SECONDS + 1)

        answer = claimed(store, token="second", payload_hash="other")

        assert isinstance(answer, Accepted)
        assert (row_in(store).status, row_in(store).payload_hash) == ("running", "other")

    def test_the_fence_of_an_expired_item_still_counts(
        self, store: DurableStore, clock: FrozenClock
    ) -> None:
        ended(store, fence=2**53 - 100, ttl_seconds=5.0)
        clock.sleep(7.0)

        answer = claimed(store)

        assert answer == Accepted(fence=2**53 - 99)

    def test_a_running_claim_that_expires_before_its_deadline_is_absent(
        self, store: DurableStore, clock: FrozenClock
    ) -> None:
        claimed(store, token="first", remaining_seconds=600.0, ttl_seconds=5.0)
        clock.sleep(7.0)

        answer = claimed(store, token="second")

        assert isinstance(answer, Accepted)

    def test_a_claim_at_the_end_of_its_invocation_keeps_the_slop(self, store: DurableStore) -> None:
        claimed(store, remaining_seconds=-0.7)

        assert row_in(store).deadline == 1_700_000_002.0

    def test_a_claim_without_a_token_is_refused(self, store: DurableStore) -> None:
        with pytest.raises(ValueError, match="a claim needs a token"):
            claimed(store, token="")

    def test_ones_own_claim_is_given_back(self, store: DurableStore) -> None:
        claimed(store)

        given_back = store.give_back(NAME, ID, token="mine")

        assert given_back is True
        assert (row_in(store).status, row_in(store).deadline) == ("pending", 0.0)

    def test_a_giving_back_whose_reply_was_lost_can_be_repeated(
        self, backend: Backend, store: DurableStore
    ) -> None:
        claimed(store)
        backend.lose_reply_next()
        with pytest.raises(StoreUnavailable):
            store.give_back(NAME, ID, token="mine")

        assert store.give_back(NAME, ID, token="mine") is True

    @pytest.mark.parametrize("status", ["pending", "running", "done", "failed"])
    def test_nobody_gives_back_what_another_holds(
        self, store: DurableStore, status: Status
    ) -> None:
        recorded = brought_to(status, store)

        given_back = store.give_back(NAME, ID, token="mine")

        assert given_back is False
        assert row_in(store) == recorded

    @pytest.mark.parametrize("status", ["done", "failed"])
    def test_what_is_final_is_not_given_back(self, store: DurableStore, status: Status) -> None:
        recorded = brought_to(status, store, token="mine")

        given_back = store.give_back(NAME, ID, token="mine")

        assert given_back is False
        assert row_in(store) == recorded

    def test_what_is_absent_or_expired_is_not_given_back(
        self, store: DurableStore, clock: FrozenClock
    ) -> None:
        absent = store.give_back(NAME, ID, token="mine")
        claimed(store, ttl_seconds=10.0)
        clock.sleep(12.0)

        expired = store.give_back(NAME, ID, token="mine")

        assert (absent, expired) == (False, False)

    def test_what_was_given_back_and_expired_is_not_given_back_again(
        self, store: DurableStore, clock: FrozenClock
    ) -> None:
        claimed(store, ttl_seconds=10.0)
        store.give_back(NAME, ID, token="mine")
        clock.sleep(12.0)

        assert store.give_back(NAME, ID, token="mine") is False
