"""One test for each row of `claim` (PROTOCOL §2), in the order of the table.

Each also runs against every mutant of the scripts: what is not asserted here by hand, the model
asserts at every step (answer, state, TTLs).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from redis import Redis

from sekali.answers import Acquired, Busy, Done, Failed, Mismatch, Quarantined, Served
from sekali.claims import Claims
from sekali.testing import FrozenClock
from tests.properties.protocol.scenes import held, let_body_fail, run_and_die
from tests.properties.protocol.steps import PATIENT_TERMS

if TYPE_CHECKING:
    from tests.properties.protocol.world import World


# --- row 1 ---


def test_same_id_with_another_payload_is_a_mismatch(world: World) -> None:
    held(world, "k1-a")

    answer = world.claim(world.ask("k1-a", payload_hash="other"))

    assert answer == Mismatch()


def test_a_mismatch_is_told_even_when_the_id_is_done(world: World) -> None:
    world.finish(held(world, "k1-a"), "D")

    answer = world.claim(world.ask("k1-a", payload_hash="other"))

    assert answer == Mismatch()


# --- row 2 ---


def test_a_finished_id_answers_with_its_own_result(world: World) -> None:
    world.finish(held(world, "k1-a"), "D", result=b"42")

    answer = world.claim(world.ask("k1-a"))

    assert answer == Done(b"42")


def test_a_finished_id_is_done_even_while_its_key_is_computed_for_another(world: World) -> None:
    world.finish(held(world, "k1-a"), "D", result=b"42", header=b"")
    held(world, "k1-b")

    answer = world.claim(world.ask("k1-a"))

    assert answer == Done(b"42")


# --- row 3 ---


def test_a_failed_id_answers_with_its_error_and_fence(world: World) -> None:
    lease = held(world, "k1-a")
    world.finish(lease, "X", result=b"ValueError")

    answer = world.claim(world.ask("k1-a"))

    assert answer == Failed(b"ValueError", lease.fence)


def test_a_redriven_failure_runs_again_and_an_older_redrive_does_not(world: World) -> None:
    lease = held(world, "k1-a")
    world.finish(lease, "X")

    older = world.claim(world.ask("k1-a", rearm=lease.fence - 1))
    redriven = world.claim(world.ask("k1-a", rearm=lease.fence))

    assert isinstance(older, Failed)
    assert isinstance(redriven, Acquired)
    assert redriven.attempt == 1


# --- rows 4 and 5 ---


def test_a_claim_whose_reply_was_lost_gets_the_same_answer_again(world: World) -> None:
    ask = world.ask("k1-a")
    first = world.claim(ask)

    again = world.claim(ask)

    assert isinstance(first, Acquired)
    assert again == first


def test_a_takeover_whose_reply_was_lost_names_the_abandoned_owner_again(world: World) -> None:
    run_and_die(world, "k1-a", owner="ben")
    ask = world.ask("k1-a")
    first = world.claim(ask, owner="cid")

    again = world.claim(ask, owner="cid")

    assert isinstance(first, Acquired)
    assert (first.takeover, first.suspect, first.abandoned_owner) == (True, True, "ben")
    assert again == first


def test_a_repeated_claim_keeps_a_tombstone(world: World) -> None:
    ask = world.ask("k1-a")
    world.claim(ask)
    world.invalidate("k1")

    answer = world.claim(ask)

    assert isinstance(answer, Acquired)
    world.finish(answer.lease, "D")
    assert isinstance(world.claim(world.ask("k1-b")), Acquired)  # nothing was filled


def test_a_repeated_claim_takes_its_ended_lease_again(world: World) -> None:
    ask = world.ask("k1-a")
    first = world.claim(ask)
    world.lose(world.slot("k1-a").lease)

    again = world.claim(ask)

    assert again == first
    assert isinstance(world.claim(world.ask("k1-b")), Busy)


def test_a_repeated_claim_of_a_marked_suspect_is_no_suspect_any_more(world: World) -> None:
    run_and_die(world, "k1-a")
    ask = world.ask("k1-a")
    first = world.claim(ask)
    assert isinstance(first, Acquired)
    world.renew(first.lease, started=True)

    again = world.claim(ask)

    assert isinstance(again, Acquired)
    assert (again.suspect, again.attempt) == (False, first.attempt)


def test_memory_of_a_repeated_claim_begins_now_if_the_born_mark_was_lost(world: World) -> None:
    ask = world.ask("k1-a")
    world.claim(ask)
    world.lose(world.slot("k1-a").born)

    answer = world.claim(ask)

    assert isinstance(answer, Acquired)
    assert answer.born_ms * 1000 >= answer.lease.fence


def test_a_claim_that_comes_again_after_its_end_is_used_up(world: World) -> None:
    ask = world.ask("k1-a")
    first = world.claim(ask)
    assert isinstance(first, Acquired)
    world.finish(first.lease, "U")

    late = world.claim(ask)

    assert late == Busy(0.0, "ann", 0.0, cooling=False, stale=None)


def test_a_claim_that_comes_again_while_its_key_cools_is_used_up(world: World) -> None:
    ask = world.ask("k1-a", want_stale=True)
    world.set_text(world.slot("k1-a").value, "0000000000000000|")
    first = world.claim(ask)
    assert isinstance(first, Acquired)
    world.finish(first.lease, "T")

    late = world.claim(ask)

    assert isinstance(late, Busy)
    assert (late.cooling, late.stale) == (True, None)


def test_a_repeated_claim_whose_record_was_evicted_is_used_up(world: World) -> None:
    ask = world.ask("k1-a")
    world.claim(ask)
    world.lose(world.slot("k1-a").record)

    late = world.claim(ask)

    assert isinstance(late, Busy)


def test_a_repeated_claim_whose_record_was_given_back_is_used_up(world: World) -> None:
    """The key's record still runs: the finish found another's lease and touched nothing."""
    ask = world.ask("k1-a")
    first = world.claim(ask)
    assert isinstance(first, Acquired)
    world.set_text(world.slot("k1-a").lease, "somebody")
    world.finish(first.lease, "U")
    world.lose(world.slot("k1-a").lease)

    late = world.claim(ask)

    assert isinstance(late, Busy)


def test_a_repeated_claim_whose_record_is_anothers_is_used_up(world: World) -> None:
    """Only part of a slot went back to an older state; no failover does that."""
    ask = world.ask("k1-a")
    world.claim(ask)
    world.put(world.slot("k1-a").record, tk="somebody")

    late = world.claim(ask)

    assert isinstance(late, Busy)


def test_a_repeated_claim_leaves_anothers_lease_alone(world: World) -> None:
    ask = world.ask("k1-a")
    world.claim(ask)
    world.set_text(world.slot("k1-a").lease, "somebody")

    late = world.claim(ask)

    assert isinstance(late, Busy)


def test_a_claim_that_comes_again_after_anothers_makes_a_ghost_of_one_lease(world: World) -> None:
    """The ghost supersedes its own former holder, and its count is taken back."""
    ask = world.ask("k1-a")
    first = world.claim(ask)
    assert isinstance(first, Acquired)
    world.finish(first.lease, "U")
    world.finish(held(world, "k1-b"), "U")

    ghost = world.claim(ask)
    world.lose(world.slot("k1-a").lease)
    after = world.claim(world.ask("k1-a"))

    assert isinstance(ghost, Acquired)
    assert ghost.lease.fence > first.lease.fence
    assert isinstance(after, Acquired)
    assert (after.attempt, after.suspect) == (1, True)


# --- row 6 ---


def test_another_id_of_a_computed_key_is_served_its_value(world: World) -> None:
    lease = held(world, "k1-a")
    world.finish(lease, "D", result=b"42")

    answer = world.claim(world.ask("k1-b"))

    assert answer == Served(b"%016d|42" % lease.fence)


def test_a_value_is_served_with_what_is_left_of_its_life(world: World) -> None:
    world.finish(held(world, "k1-a"), "D", value_ttl_seconds=30.0)

    answer = world.claim(world.ask("k1-b"))

    assert isinstance(answer, Served)
    assert 20.0 < answer.remaining_seconds <= 30.0


def test_a_value_is_served_while_somebody_holds_the_lease(world: World) -> None:
    lease = held(world, "k1-a")
    world.finish(lease, "D")
    held(world, "k1-b", refuse=lease.fence)

    answer = world.claim(world.ask("k1-c"))

    assert isinstance(answer, Served)


def test_a_refused_value_is_computed_again_and_called_older(world: World) -> None:
    lease = held(world, "k1-a")
    world.finish(lease, "D")

    refused = world.claim(world.ask("k1-b", refuse=lease.fence))

    assert isinstance(refused, Acquired)
    assert refused.older


def test_a_newer_value_than_the_refused_one_is_served(world: World) -> None:
    lease = held(world, "k1-a")
    world.finish(lease, "D")

    answer = world.claim(world.ask("k1-b", refuse=lease.fence - 1))

    assert isinstance(answer, Served)


def test_a_foreign_value_without_a_fence_is_computed_again(world: World) -> None:
    world.set_text(world.slot("k1-a").value, "not one of ours")

    answer = world.claim(world.ask("k1-a"))

    assert isinstance(answer, Acquired)
    assert answer.older


# --- row 7 ---


def test_a_held_key_is_busy_for_what_is_left_of_the_lease(world: World) -> None:
    held(world, "k1-a", owner="ben")
    held(world, "k2-a", owner="cid")

    answer = world.claim(world.ask("k1-b"))

    assert isinstance(answer, Busy)
    assert (answer.owner, answer.cooling, answer.stale) == ("ben", False, None)
    assert 50.0 < answer.remaining_seconds <= 60.0
    assert 0.0 <= answer.age_seconds < 10.0


def test_a_cooling_key_is_busy_and_says_so(world: World) -> None:
    world.finish(held(world, "k1-a", owner="ben"), "T")

    answer = world.claim(world.ask("k1-a"))

    assert isinstance(answer, Busy)
    assert (answer.owner, answer.cooling) == ("ben", True)
    assert 10.0 < answer.remaining_seconds <= 20.0


def test_a_busy_key_brings_its_refused_value_only_where_it_is_wanted(world: World) -> None:
    lease = held(world, "k1-a")
    world.finish(lease, "D", result=b"42")
    held(world, "k1-b", refuse=lease.fence)

    wanted = world.claim(world.ask("k1-c", refuse=lease.fence, want_stale=True))
    unwanted = world.claim(world.ask("k1-c", refuse=lease.fence))

    assert isinstance(wanted, Busy)
    assert wanted.stale == b"%016d|42" % lease.fence
    assert isinstance(unwanted, Busy)
    assert unwanted.stale is None


def test_a_busy_key_whose_record_was_evicted_names_nobody(world: World) -> None:
    held(world, "k1-a")
    world.lose(world.slot("k1-a").key)

    answer = world.claim(world.ask("k1-b", want_stale=True))

    assert isinstance(answer, Busy)
    assert (answer.owner, answer.age_seconds, answer.stale) == ("", 0.0, None)


def test_age_of_a_holder_that_began_in_the_future_is_none(world: World) -> None:
    """After a failover to a node whose clock is behind."""
    held(world, "k1-a")
    world.put(world.slot("k1-a").key, started="9000000000000")

    answer = world.claim(world.ask("k1-b"))

    assert isinstance(answer, Busy)
    assert answer.age_seconds == 0.0


# --- row 8 ---


def test_attempts_used_up_mean_quarantine_with_the_last_error(world: World) -> None:
    leases = [let_body_fail(world, "k1-a", error=f"error {number}") for number in (1, 2, 3)]

    answer = world.claim(world.ask("k1-a"), owner="cid")

    assert answer == Quarantined(3, b"error 3", "ann", leases[-1].fence)


def test_a_job_that_kills_its_container_is_quarantined_without_an_error(world: World) -> None:
    for _ in range(3):
        run_and_die(world, "k1-a")

    answer = world.claim(world.ask("k1-a"))

    assert isinstance(answer, Quarantined)
    assert (answer.attempts, answer.error) == (3, b"")


def test_a_redriven_quarantine_is_a_fresh_job_once(world: World) -> None:
    for _ in range(3):
        run_and_die(world, "k1-a")
    quarantined = world.claim(world.ask("k1-a"))
    assert isinstance(quarantined, Quarantined)

    older = world.claim(world.ask("k1-a", rearm=quarantined.fence - 1))
    redriven = world.claim(world.ask("k1-a", rearm=quarantined.fence))

    assert isinstance(older, Quarantined)
    assert isinstance(redriven, Acquired)
    assert (redriven.attempt, redriven.suspect, redriven.takeover) == (1, False, True)


def test_a_redriven_failure_of_a_suspect_is_no_suspect(world: World) -> None:
    run_and_die(world, "k1-a")
    suspect = held(world, "k1-a")
    world.renew(suspect, started=True)
    world.finish(suspect, "X")

    redriven = world.claim(world.ask("k1-a", rearm=suspect.fence))

    assert isinstance(redriven, Acquired)
    assert (redriven.attempt, redriven.suspect) == (1, False)


# --- row 9 ---


def test_a_first_claim_is_fresh_and_remembers_since_when(world: World) -> None:
    answer = world.claim(world.ask("k1-a"))

    assert isinstance(answer, Acquired)
    assert (answer.fresh, answer.takeover, answer.older, answer.abandoned_owner) == (
        True, False, False, "",
    )  # fmt: skip
    assert (answer.attempt, answer.suspect) == (1, False)
    assert answer.born_ms * 1000 == answer.lease.fence
    assert answer.lease.expires_at == 60.0


def test_the_born_mark_of_a_bucket_is_never_rewritten(world: World) -> None:
    first = world.claim(world.ask("k1-a"))
    world.wait_a_tick()

    later = world.claim(world.ask("k2-a"))

    assert isinstance(first, Acquired)
    assert isinstance(later, Acquired)
    assert later.born_ms == first.born_ms


def test_attempts_count_up_with_each_body_that_failed(world: World) -> None:
    let_body_fail(world, "k1-a")

    answer = world.claim(world.ask("k1-a"))

    assert isinstance(answer, Acquired)
    assert (answer.attempt, answer.fresh, answer.suspect) == (2, False, False)


def test_a_takeover_takes_back_the_count_of_a_body_never_seen_to_start(world: World) -> None:
    held(world, "k1-a", owner="ben")
    world.lose(world.slot("k1-a").lease)

    answer = world.claim(world.ask("k1-a"), owner="cid")

    assert isinstance(answer, Acquired)
    assert (answer.attempt, answer.suspect, answer.takeover) == (1, True, True)
    assert answer.abandoned_owner == "ben"


def test_a_takeover_keeps_the_count_of_a_body_that_was_seen_to_start(world: World) -> None:
    run_and_die(world, "k1-a")

    answer = world.claim(world.ask("k1-a"))

    assert isinstance(answer, Acquired)
    assert (answer.attempt, answer.suspect) == (2, True)


def test_a_suspect_that_is_taken_over_unmarked_stays_uncounted(world: World) -> None:
    held(world, "k1-a")
    world.lose(world.slot("k1-a").lease)
    held(world, "k1-a")
    world.lose(world.slot("k1-a").lease)

    answer = world.claim(world.ask("k1-a"))

    assert isinstance(answer, Acquired)
    assert (answer.attempt, answer.suspect) == (1, True)


def test_a_suspect_that_failed_in_good_order_is_still_a_suspect(world: World) -> None:
    run_and_die(world, "k1-a")
    suspect = held(world, "k1-a")
    world.renew(suspect, started=True)
    world.finish(suspect, "T")
    world.lose(world.slot("k1-a").lease)

    answer = world.claim(world.ask("k1-a", terms=PATIENT_TERMS))

    assert isinstance(answer, Acquired)
    assert (answer.attempt, answer.suspect, answer.takeover) == (3, True, False)


def test_an_owner_that_abandoned_another_id_of_the_key_is_named(world: World) -> None:
    held(world, "k1-a", owner="ben")
    world.lose(world.slot("k1-a").lease)

    answer = world.claim(world.ask("k1-b"))

    assert isinstance(answer, Acquired)
    assert (answer.abandoned_owner, answer.takeover, answer.fresh) == ("ben", False, True)


def test_an_owner_that_let_go_is_not_named(world: World) -> None:
    world.finish(held(world, "k1-a", owner="ben"), "U")

    answer = world.claim(world.ask("k1-b"))

    assert isinstance(answer, Acquired)
    assert answer.abandoned_owner == ""


def test_a_new_claim_clears_the_tombstone_of_the_one_before(world: World) -> None:
    held(world, "k1-a")
    world.invalidate("k1")
    world.lose(world.slot("k1-a").lease)

    lease = held(world, "k1-b")

    world.finish(lease, "D")
    assert isinstance(world.claim(world.ask("k1-c")), Served)


def test_fence_grows_past_the_keys_record_within_a_millisecond(world: World) -> None:
    one, two = world.ask("k1-a"), world.ask("k1-b")

    first, _, second = world.step(
        world.claim_op(one), world.lose_op(world.slot("k1-a").lease), world.claim_op(two)
    )

    assert second.answer.lease.fence == first.answer.lease.fence + 1


def test_fence_grows_past_the_jobs_record_where_the_keys_was_evicted(world: World) -> None:
    slot = world.slot("k1-a")
    one, two = world.ask("k1-a"), world.ask("k1-a")

    first, _, second = world.step(
        world.claim_op(one), world.lose_op(slot.lease, slot.key), world.claim_op(two)
    )

    assert second.answer.lease.fence == first.answer.lease.fence + 1


def test_fence_follows_the_servers_clock_after_everything_was_lost(world: World) -> None:
    first = held(world, "k1-a")
    world.do(world.lose_all_op())
    world.wait_a_tick()

    second = held(world, "k1-a")

    assert second.fence > first.fence


def test_keys_and_ids_of_a_bucket_do_not_meet(world: World) -> None:
    held(world, "k1-a")

    sibling_key = world.claim(world.ask("k2-a"))
    other_bucket = world.claim(world.ask("k4-a"))

    assert isinstance(sibling_key, Acquired)
    assert isinstance(other_bucket, Acquired)


def test_a_claim_that_ended_is_used_up_though_its_record_runs_again(world: World) -> None:
    """Only the job's record went back to an older state; no failover does that."""
    ask = world.ask("k1-a")
    first = world.claim(ask)
    assert isinstance(first, Acquired)
    world.finish(first.lease, "U")
    world.put(world.slot("k1-a").record, st="running")

    late = world.claim(ask)

    assert isinstance(late, Busy)


# --- the server's clock ---


def test_the_callers_clock_stands_in_where_the_servers_cannot_be_asked(world: World) -> None:
    """Where PEXPIRETIME is refused inside scripts."""
    world.client.acl_setuser(
        "unasked", enabled=True, nopass=True, keys=["*"], categories=["+@all"],
        commands=["-pexpiretime"],
    )  # fmt: skip
    port = world.client.get_connection_kwargs()["port"]
    clock = FrozenClock(wall=2_000_000_000.0)
    claims = Claims(world.keyspace, "ann", clock=clock)
    asks = [world.ask("k1-a"), world.ask("k1-b")]

    with Redis(port=port, username="unasked", password="any") as client:
        replies = [
            client.execute_command(*world.as_sent(claims.claim(asks[0]))),
            client.execute_command(*world.as_sent(claims.claim(asks[1]))),
        ]
    answers = [claims.read_claim(ask, reply, 0.0) for ask, reply in zip(asks, replies, strict=True)]

    assert isinstance(answers[0], Acquired)
    assert answers[0].lease.fence == 2_000_000_000_000_000
    assert isinstance(answers[1], Busy)
    assert answers[1].age_seconds == 0.0
