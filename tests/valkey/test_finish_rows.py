"""One test for each row of `finish` and for `invalidate` (PROTOCOL §2), in the order of the tables.

Each also runs against every mutant of the scripts; see test_claim_rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sekali.answers import (
    Acquired,
    Busy,
    Done,
    Failed,
    Finished,
    FinishFailed,
    FinishMismatch,
    FinishSuperseded,
    GivenBack,
    Lost,
    Served,
)
from tests.properties.protocol.scenes import held, let_body_fail, run_and_die
from tests.properties.protocol.steps import ENDS

if TYPE_CHECKING:
    from sekali.answers import Lease
    from tests.properties.protocol.world import World


def superseded(world: World) -> Lease:
    """Return a lease whose holder slept too long: another id of its key is being computed."""
    lease = held(world, "k1-a")
    world.lose(world.slot("k1-a").lease)
    held(world, "k1-b", owner="ben")
    return lease


# --- row 1 ---


def test_a_finish_with_another_payload_is_a_mismatch(world: World) -> None:
    held(world, "k1-a")
    stranger = world.end(world.lease_of(world.ask("k1-a", payload_hash="other"), 1), "S")

    answer = world.do(world.finish_op(stranger))

    assert answer == FinishMismatch()


# --- row 2 ---


def test_a_repeated_finish_gets_the_result_again(world: World) -> None:
    lease = held(world, "k1-a")
    world.finish(lease, "D", result=b"42")

    answer = world.finish(lease, "D", result=b"43")

    assert answer == Finished(b"42", filled=False)


def test_every_outcome_of_a_done_id_is_answered_with_its_result(world: World) -> None:
    lease = held(world, "k1-a")
    world.finish(lease, "S", token="", recorded=True, result=b"42")

    answers = [world.finish(lease, outcome) for outcome in ENDS]

    assert answers == [Finished(b"42", filled=False)] * len(ENDS)


def test_a_holder_that_finds_its_id_done_lets_the_lease_go(world: World) -> None:
    lease = held(world, "k1-a")
    world.finish(lease, "S", token="", recorded=True)

    world.finish(lease, "U")

    assert isinstance(world.claim(world.ask("k1-b")), Acquired)


def test_a_stale_holder_that_finds_its_id_done_leaves_the_newer_lease_alone(world: World) -> None:
    lease = superseded(world)
    world.finish(lease, "S", token="", recorded=True)

    world.finish(lease, "U")

    assert isinstance(world.claim(world.ask("k1-c")), Busy)


# --- row 3 ---


def test_every_outcome_of_a_failed_id_is_answered_with_its_error(world: World) -> None:
    lease = held(world, "k1-a")
    world.finish(lease, "X", token="", result=b"ValueError", recorded=True)

    answers = [world.finish(lease, outcome) for outcome in ENDS]

    assert answers == [FinishFailed(b"ValueError")] * len(ENDS)


def test_a_holder_that_finds_its_id_failed_lets_the_lease_go(world: World) -> None:
    lease = held(world, "k1-a")
    world.finish(lease, "X", token="", recorded=True)

    world.finish(lease, "U")

    assert isinstance(world.claim(world.ask("k1-b")), Acquired)


def test_a_recorded_result_replaces_a_failure(world: World) -> None:
    lease = held(world, "k1-a")
    world.finish(lease, "X")

    answer = world.finish(lease, "S", recorded=True, result=b"42")

    assert answer == Finished(b"42", filled=False)
    assert world.claim(world.ask("k1-a")) == Done(b"42")


def test_a_repeated_recorded_failure_answers_the_same(world: World) -> None:
    lease = held(world, "k1-a")

    first = world.finish(lease, "X", recorded=True, result=b"ValueError")
    second = world.finish(lease, "X", recorded=True, result=b"ValueError")

    assert first == second == FinishFailed(b"ValueError")


# --- row 4 ---


def test_every_unrecorded_outcome_of_a_superseded_claim_changes_nothing(world: World) -> None:
    lease = superseded(world)

    answers = [world.finish(lease, outcome) for outcome in ENDS]

    assert answers == [FinishSuperseded()] * len(ENDS)


def test_a_finish_is_superseded_by_a_newer_claim_of_the_id_alone(world: World) -> None:
    slot = world.slot("k1-a")
    lease = held(world, "k1-a")
    world.lose(slot.lease)
    held(world, "k1-a")
    world.lose(slot.lease, slot.key)

    answer = world.finish(lease, "D")

    assert answer == FinishSuperseded()


def test_a_finish_is_superseded_by_another_token_with_the_same_fence_on_the_key(
    world: World,
) -> None:
    one, two = world.ask("k1-a"), world.ask("k1-b")
    first, _, _ = world.step(world.claim_op(one), world.lose_all_op(), world.claim_op(two))

    answer = world.finish(first.answer.lease, "D")

    assert answer == FinishSuperseded()


def test_a_finish_is_superseded_by_another_token_with_the_same_fence_on_the_id(
    world: World,
) -> None:
    one, two = world.ask("k1-a"), world.ask("k1-a")
    first, _, _ = world.step(world.claim_op(one), world.lose_all_op(), world.claim_op(two))
    world.lose(world.slot("k1-a").key)

    answer = world.finish(first.answer.lease, "D")

    assert answer == FinishSuperseded()


def test_a_former_holder_cannot_finish_as_its_own_ghost(world: World) -> None:
    ask = world.ask("k1-a")
    first = world.claim(ask)
    assert isinstance(first, Acquired)
    world.lose(world.slot("k1-a").lease)
    world.finish(held(world, "k1-b"), "U")
    ghost = world.claim(ask)

    answer = world.finish(first.lease, "D")

    assert isinstance(ghost, Acquired)
    assert answer == FinishSuperseded()


def test_a_value_served_settles_an_id_whatever_else_is_known(world: World) -> None:
    lease = held(world, "k1-a")
    world.finish(lease, "D", result=b"42")
    held(world, "k1-b", refuse=lease.fence)
    served = world.lease_of(world.ask("k1-c", token=""), lease.fence)

    answer = world.finish(served, "S", result=b"42")

    assert answer == Finished(b"42", filled=False)


# --- row 5 ---


def test_a_finished_body_settles_its_id_fills_the_value_and_lets_the_lease_go(
    world: World,
) -> None:
    lease = held(world, "k1-a")

    answer = world.finish(lease, "D", result=b"42")

    assert answer == Finished(b"42", filled=True)
    assert world.claim(world.ask("k1-a")) == Done(b"42")
    assert world.claim(world.ask("k1-b")) == Served(b"%016d|42" % lease.fence)


def test_a_load_that_an_invalidation_overtook_is_not_stored(world: World) -> None:
    lease = held(world, "k1-a")
    world.invalidate("k1")

    answer = world.finish(lease, "D", result=b"42")

    assert answer == Finished(b"42", filled=False)
    assert world.claim(world.ask("k1-a")) == Done(b"42")
    assert isinstance(world.claim(world.ask("k1-b")), Acquired)


def test_a_result_that_cannot_be_stored_drops_the_older_value(world: World) -> None:
    lease = held(world, "k1-a")
    world.finish(lease, "D")
    second = held(world, "k1-b", refuse=lease.fence)

    answer = world.finish(second, "D", header=b"")

    assert isinstance(answer, Finished)
    assert not answer.filled
    assert isinstance(world.claim(world.ask("k1-c")), Acquired)


def test_a_value_without_a_lifetime_drops_the_older_value(world: World) -> None:
    lease = held(world, "k1-a")
    world.finish(lease, "D")
    second = held(world, "k1-b", refuse=lease.fence)

    answer = world.finish(second, "D", value_ttl_seconds=0.0)

    assert isinstance(answer, Finished)
    assert not answer.filled
    assert isinstance(world.claim(world.ask("k1-c")), Acquired)


def test_an_invalidated_load_leaves_the_value_of_a_later_one(world: World) -> None:
    """The tombstone refuses the drop as it refuses the fill."""
    lease = held(world, "k1-a")
    world.invalidate("k1")
    world.set_text(world.slot("k1-a").value, f"{lease.fence + 5:016d}|later")

    world.finish(lease, "D", header=b"")

    assert isinstance(world.claim(world.ask("k1-b")), Served)


def test_an_answer_this_claim_did_not_compute_fills_nothing(world: World) -> None:
    lease = held(world, "k1-a")

    answer = world.finish(lease, "S", result=b"42", recorded=True)

    assert answer == Finished(b"42", filled=False)
    assert isinstance(world.claim(world.ask("k1-b")), Acquired)


def test_a_result_whose_lease_ended_unclaimed_is_stored(world: World) -> None:
    lease = held(world, "k1-a")
    world.lose(world.slot("k1-a").lease)

    answer = world.finish(lease, "D")

    assert isinstance(answer, Finished)
    assert answer.filled


def test_a_superseded_body_with_a_recorded_result_settles_its_id_only(world: World) -> None:
    lease = superseded(world)

    answer = world.finish(lease, "D", recorded=True, result=b"42")

    assert answer == Finished(b"42", filled=False)
    assert world.claim(world.ask("k1-a")) == Done(b"42")
    assert isinstance(world.claim(world.ask("k1-c")), Busy)


def test_a_recorded_result_of_an_older_ghost_does_not_end_the_newer_one(world: World) -> None:
    """Token and fence together say whose a record is: here the token alone would lie."""
    ask = world.ask("k1-a")
    first = world.claim(ask)
    assert isinstance(first, Acquired)
    world.lose(world.slot("k1-a").lease)
    world.finish(held(world, "k1-b"), "U")
    assert isinstance(world.claim(ask), Acquired)

    answer = world.finish(first.lease, "D", recorded=True)

    assert isinstance(answer, Finished)
    assert not answer.filled
    assert isinstance(world.claim(world.ask("k1-b")), Busy)


def test_a_recorded_result_of_a_tied_claim_does_not_end_the_other(world: World) -> None:
    """Token and fence together say whose a record is: here the fence alone would lie."""
    one, two = world.ask("k1-a"), world.ask("k1-b")
    first, _, _ = world.step(world.claim_op(one), world.lose_all_op(), world.claim_op(two))
    world.lose(world.slot("k1-a").lease)

    answer = world.finish(first.answer.lease, "D", recorded=True)

    assert isinstance(answer, Finished)
    assert not answer.filled


def test_a_finish_that_finds_anothers_lease_touches_neither_lease_nor_value(world: World) -> None:
    """The key's record went back to an older state alone; no failover does that."""
    lease = held(world, "k1-a")
    world.set_text(world.slot("k1-a").lease, "somebody")

    answer = world.finish(lease, "D")

    assert isinstance(answer, Finished)
    assert not answer.filled
    assert isinstance(world.claim(world.ask("k1-b")), Busy)


def test_a_finish_whose_key_record_was_evicted_settles_its_id_only(world: World) -> None:
    lease = held(world, "k1-a")
    world.lose(world.slot("k1-a").key)

    answer = world.finish(lease, "D", result=b"42")

    assert answer == Finished(b"42", filled=False)
    assert world.claim(world.ask("k1-a")) == Done(b"42")


def test_a_follower_is_settled_under_its_leaders_claim(world: World) -> None:
    leader = held(world, "k1-a")
    world.finish(leader, "D", result=b"42")
    follower = world.lease_of(world.ask("k1-b", token=leader.token), leader.fence)

    answer = world.finish(follower, "S", result=b"42")

    assert answer == Finished(b"42", filled=False)
    assert world.claim(world.ask("k1-b")) == Done(b"42")


def test_a_claim_that_has_ended_settles_another_id_without_ending_anything_twice(
    world: World,
) -> None:
    """After its leader's finish the follower comes while somebody else holds the key again."""
    leader = held(world, "k1-a")
    world.finish(leader, "U")
    follower = world.lease_of(world.ask("k1-b", token=leader.token), leader.fence)

    answer = world.finish(follower, "D", result=b"42")

    assert answer == Finished(b"42", filled=False)


# --- row 6 ---


def test_a_permanent_failure_settles_the_id_and_lets_the_lease_go(world: World) -> None:
    lease = held(world, "k1-a")

    answer = world.finish(lease, "X", result=b"ValueError")

    assert answer == FinishFailed(b"ValueError")
    assert world.claim(world.ask("k1-a")) == Failed(b"ValueError", lease.fence)
    assert isinstance(world.claim(world.ask("k1-b")), Acquired)


def test_a_recorded_failure_of_a_superseded_claim_settles_its_id_only(world: World) -> None:
    lease = superseded(world)

    answer = world.finish(lease, "X", recorded=True, result=b"ValueError")

    assert answer == FinishFailed(b"ValueError")
    assert world.claim(world.ask("k1-a")) == Failed(b"ValueError", lease.fence)
    assert isinstance(world.claim(world.ask("k1-c")), Busy)


# --- row 7 ---


def test_a_failed_body_cools_its_key_longer_each_time_up_to_the_cap(world: World) -> None:
    answers = []
    for _ in range(3):
        lease = held(world, "k1-a")
        answers.append(world.finish(lease, "T"))
        world.lose(world.slot("k1-a").lease)

    assert answers == [GivenBack(20.0), GivenBack(40.0), GivenBack(50.0)]


def test_a_failed_body_keeps_other_ids_of_the_key_waiting(world: World) -> None:
    let_body_fail(world, "k1-a", cooled=False)

    answer = world.claim(world.ask("k1-b"))

    assert isinstance(answer, Busy)
    assert answer.cooling


def test_a_job_given_back_before_its_body_costs_no_attempt(world: World) -> None:
    lease = held(world, "k1-a")

    answer = world.finish(lease, "U")

    assert answer == GivenBack(0.0)
    after = world.claim(world.ask("k1-a"))
    assert isinstance(after, Acquired)
    assert (after.attempt, after.suspect, after.takeover) == (1, False, False)


def test_a_job_given_back_after_its_body_started_costs_one(world: World) -> None:
    lease = held(world, "k1-a")

    answer = world.finish(lease, "W")

    assert answer == GivenBack(0.0)
    after = world.claim(world.ask("k1-a"))
    assert isinstance(after, Acquired)
    assert after.attempt == 2


def test_a_confirmed_start_is_not_taken_back(world: World) -> None:
    lease = held(world, "k1-a")
    world.renew(lease, started=True)

    world.finish(lease, "U")

    after = world.claim(world.ask("k1-a"))
    assert isinstance(after, Acquired)
    assert after.attempt == 2


def test_a_suspect_given_back_uncounted_takes_nothing_back(world: World) -> None:
    run_and_die(world, "k1-a")
    suspect = held(world, "k1-a")

    world.finish(suspect, "U")

    after = world.claim(world.ask("k1-a"))
    assert isinstance(after, Acquired)
    assert after.attempt == 2


def test_a_give_back_repeated_after_anothers_claim_changes_nothing(world: World) -> None:
    lease = held(world, "k1-a")
    first = world.finish(lease, "U")
    world.finish(held(world, "k1-b"), "T")

    again = world.finish(lease, "U")
    cooling = world.claim(world.ask("k1-c"))

    assert (first, again) == (GivenBack(0.0), FinishSuperseded())
    assert isinstance(cooling, Busy)
    assert cooling.cooling


def test_a_failure_reported_twice_cools_once_and_answers_the_same(world: World) -> None:
    lease = held(world, "k1-a")
    first = world.finish(lease, "T")
    world.lose(world.slot("k1-a").lease)

    again = world.finish(lease, "T")

    assert first == again == GivenBack(20.0)
    assert isinstance(world.claim(world.ask("k1-b")), Acquired)


def test_a_give_back_sent_twice_takes_the_count_back_once(world: World) -> None:
    let_body_fail(world, "k1-a")
    lease = held(world, "k1-a")
    world.finish(lease, "U")

    world.finish(lease, "U")

    after = world.claim(world.ask("k1-a"))
    assert isinstance(after, Acquired)
    assert after.attempt == 2


def test_a_give_back_whose_key_record_was_evicted_still_frees_its_lease(world: World) -> None:
    lease = held(world, "k1-a")
    world.lose(world.slot("k1-a").key)

    answer = world.finish(lease, "T")

    assert answer == GivenBack(20.0)
    assert isinstance(world.claim(world.ask("k1-b")), Acquired)


def test_a_give_back_whose_key_record_was_evicted_leaves_anothers_lease(world: World) -> None:
    lease = held(world, "k1-a")
    world.set_text(world.slot("k1-a").lease, "somebody")
    world.lose(world.slot("k1-a").key)

    world.finish(lease, "U")

    assert isinstance(world.claim(world.ask("k1-b")), Busy)


def test_a_give_back_leaves_a_lease_that_its_key_record_does_not_call_its_own(
    world: World,
) -> None:
    """An older key record, and this claim's lease: it ends by itself."""
    world.finish(held(world, "k1-b"), "U")
    before = world.snapshot()
    world.wait_a_tick()
    lease = held(world, "k1-a")
    slot = world.slot("k1-a")
    world.do(world.restore_op(before, only=[slot.key.decode(), slot.active.decode()]))

    answer = world.finish(lease, "U")

    assert answer == GivenBack(0.0)
    assert isinstance(world.claim(world.ask("k1-c")), Busy)


def test_a_failure_whose_record_was_evicted_cools_like_a_first_one(world: World) -> None:
    lease = held(world, "k1-a")
    world.lose(world.slot("k1-a").record)

    answer = world.finish(lease, "T", result=b"OSError")

    assert answer == GivenBack(20.0)


def test_a_give_back_whose_record_was_evicted_makes_a_record_again(world: World) -> None:
    lease = held(world, "k1-a")
    world.lose(world.slot("k1-a").record)

    answer = world.finish(lease, "U")

    assert answer == GivenBack(0.0)
    after = world.claim(world.ask("k1-a"))
    assert isinstance(after, Acquired)
    assert (after.fresh, after.attempt) == (False, 1)


# --- row 8 ---


def test_a_give_back_leaves_a_record_of_another_claim_alone(world: World) -> None:
    """A failover took the record back to an older claim; this one cannot speak for it."""
    run_and_die(world, "k1-a", owner="ben")
    before = world.snapshot()
    world.wait_a_tick()
    lease = held(world, "k1-a")
    world.do(world.restore_op(before))

    answers = [world.finish(lease, outcome) for outcome in ("T", "W", "U")]

    assert answers == [FinishSuperseded()] * 3


# --- invalidate ---


def test_an_invalidated_value_is_gone(world: World) -> None:
    world.finish(held(world, "k1-a"), "D")

    known = world.invalidate("k1")

    assert known
    assert isinstance(world.claim(world.ask("k1-b")), Acquired)


def test_an_unknown_key_is_invalidated_without_a_trace(world: World) -> None:
    world.finish(held(world, "k1-a"), "D")
    world.lose(world.slot("k1-a").key)

    known = world.invalidate("k1")

    assert not known
    assert world.slot("k1-a").key.decode() not in world.state
    assert isinstance(world.claim(world.ask("k1-b")), Acquired)


def test_an_invalidation_leaves_lease_and_job_alone(world: World) -> None:
    lease = held(world, "k1-a")

    world.invalidate("k1")

    assert not isinstance(world.renew(lease), Lost)
    assert isinstance(world.claim(world.ask("k1-b")), Busy)


# --- revocation ---


def test_a_revoked_holder_is_superseded_and_may_not_fill(world: World) -> None:
    lease = held(world, "k1-a")

    fence = world.revoke(lease)

    assert fence == lease.fence + 1
    assert world.renew(lease) == Lost("superseded", "ann")
    assert world.finish(lease, "D") == FinishSuperseded()
    assert isinstance(world.claim(world.ask("k1-b")), Acquired)


def test_a_newer_holder_is_not_revoked_in_the_place_of_an_older_one(world: World) -> None:
    lease = superseded(world)

    answer = world.revoke(lease)

    assert answer == 0
    assert isinstance(world.claim(world.ask("k1-c")), Busy)


def test_a_ghost_is_not_revoked_in_the_place_of_its_former_holder(world: World) -> None:
    """The same token under another fence."""
    ask = world.ask("k1-a")
    first = world.claim(ask)
    assert isinstance(first, Acquired)
    world.lose(world.slot("k1-a").lease)
    world.finish(held(world, "k1-b"), "U")
    assert isinstance(world.claim(ask), Acquired)

    answer = world.revoke(first.lease)

    assert answer == 0
    assert isinstance(world.claim(world.ask("k1-b")), Busy)


def test_a_tied_claim_is_not_revoked_in_the_place_of_the_other(world: World) -> None:
    """The same fence under another token."""
    one, two = world.ask("k1-a"), world.ask("k1-b")
    first, _, _ = world.step(world.claim_op(one), world.lose_all_op(), world.claim_op(two))

    answer = world.revoke(first.answer.lease)

    assert answer == 0
    assert isinstance(world.claim(world.ask("k1-c")), Busy)


def test_a_claim_that_has_ended_is_not_revoked(world: World) -> None:
    lease = held(world, "k1-a")
    world.finish(lease, "T")

    answer = world.revoke(lease)

    assert answer == 0
    assert isinstance(world.claim(world.ask("k1-b")), Busy)  # it still cools
