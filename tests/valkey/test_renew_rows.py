"""One test for each row of `renew` (PROTOCOL §2), in the order of the table.

Each also runs against every mutant of the scripts; see test_claim_rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sekali.answers import Acquired, Busy, Lost, Renewed
from tests.properties.protocol.scenes import held, run_and_die

if TYPE_CHECKING:
    from tests.properties.protocol.world import World


# --- row 1 ---


def test_a_lease_of_an_id_that_is_done_is_lost(world: World) -> None:
    lease = held(world, "k1-a")
    world.finish(lease, "S", token="", recorded=True)

    answer = world.renew(lease)

    assert answer == Lost("done", "ann")
    assert lease.lost


def test_a_lease_of_an_id_that_failed_is_lost(world: World) -> None:
    lease = held(world, "k1-a")
    world.finish(lease, "X", token="", recorded=True)

    answer = world.renew(lease)

    assert answer == Lost("failed", "ann")


def test_a_lease_of_an_id_that_is_done_is_lost_though_nothing_else_is_known(world: World) -> None:
    lease = held(world, "k1-a")
    world.finish(lease, "D")
    world.lose(world.slot("k1-a").key)

    answer = world.renew(lease)

    assert answer == Lost("done", "")


# --- row 2 ---


def test_a_lease_that_another_holds_is_lost_and_the_holder_named(world: World) -> None:
    lease = held(world, "k1-a")
    world.lose(world.slot("k1-a").lease)
    held(world, "k1-b", owner="ben")

    answer = world.renew(lease)

    assert answer == Lost("held", "ben")


def test_a_cooling_key_is_not_renewed(world: World) -> None:
    lease = held(world, "k1-a")
    world.finish(lease, "T")

    answer = world.renew(lease)

    assert answer == Lost("held", "ann")


def test_anothers_lease_is_left_alone_where_the_records_were_evicted(world: World) -> None:
    slot = world.slot("k1-a")
    lease = held(world, "k1-a")
    world.lose(slot.lease)
    held(world, "k1-b")
    world.lose(slot.key, slot.record)

    answer = world.renew(lease)

    assert answer == Lost("held", "")


# --- row 3 ---


def test_a_lease_is_lost_to_a_newer_claim_of_the_key(world: World) -> None:
    lease = held(world, "k1-a")
    world.lose(world.slot("k1-a").lease)
    world.finish(held(world, "k1-b", owner="ben"), "U")

    answer = world.renew(lease)

    assert answer == Lost("superseded", "ben")


def test_a_lease_is_lost_to_a_newer_claim_of_the_id_where_the_keys_record_is_gone(
    world: World,
) -> None:
    slot = world.slot("k1-a")
    lease = held(world, "k1-a")
    world.lose(slot.lease)
    held(world, "k1-a")
    world.lose(slot.lease, slot.key)

    answer = world.renew(lease)

    assert answer == Lost("superseded", "")


def test_a_lease_is_lost_to_another_token_with_the_same_fence_on_the_key(world: World) -> None:
    one, two = world.ask("k1-a"), world.ask("k1-b")
    first, _, second = world.step(
        world.claim_op(one), world.lose_all_op(), world.claim_op(two, "ben")
    )
    world.lose(world.slot("k1-a").lease)

    answer = world.renew(first.answer.lease)

    assert second.answer.lease.fence == first.answer.lease.fence
    assert answer == Lost("superseded", "ben")


def test_a_lease_is_lost_to_another_token_with_the_same_fence_on_the_id(world: World) -> None:
    slot = world.slot("k1-a")
    one, two = world.ask("k1-a"), world.ask("k1-a")
    first, _, second = world.step(
        world.claim_op(one), world.lose_all_op(), world.claim_op(two, "ben")
    )
    world.lose(slot.lease, slot.key)

    answer = world.renew(first.answer.lease)

    assert second.answer.lease.fence == first.answer.lease.fence
    assert answer == Lost("superseded", "")


def test_a_former_holder_is_superseded_by_its_own_ghost(world: World) -> None:
    """A late duplicate of its claim gave its token a second fence."""
    ask = world.ask("k1-a")
    first = world.claim(ask)
    assert isinstance(first, Acquired)
    world.lose(world.slot("k1-a").lease)
    world.finish(held(world, "k1-b"), "U")
    ghost = world.claim(ask)

    answer = world.renew(first.lease)

    assert isinstance(ghost, Acquired)
    assert answer == Lost("superseded", "ann")
    assert world.renew(ghost.lease) == Renewed(invalidated=False)


# --- row 4 ---


def test_a_renewal_in_flight_does_not_revive_the_lease_just_released(world: World) -> None:
    lease = held(world, "k1-a")
    world.finish(lease, "U")

    answer = world.renew(lease)

    assert answer == Lost("ended", "ann")
    assert isinstance(world.claim(world.ask("k1-b")), Acquired)


def test_a_lease_just_released_is_not_revived_though_the_keys_record_was_evicted(
    world: World,
) -> None:
    """Symptom: the late renewal blocked the key for one more lease, with nobody behind it."""
    lease = held(world, "k1-a")
    world.finish(lease, "W")
    world.lose(world.slot("k1-a").key)

    answer = world.renew(lease, started=True)

    assert answer == Lost("ended", "")
    assert isinstance(world.claim(world.ask("k1-b")), Acquired)


def test_a_claim_made_again_after_it_was_given_back_goes_on(world: World) -> None:
    """A late duplicate of the claim gave its token a second fence: that one was not given back."""
    ask = world.ask("k1-a")
    first = world.claim(ask)
    assert isinstance(first, Acquired)
    world.finish(first.lease, "U")
    world.lose(world.slot("k1-a").key)
    world.wait_a_tick()
    ghost = world.claim(ask)

    assert isinstance(ghost, Acquired)
    assert world.renew(ghost.lease) == Renewed(invalidated=False)
    assert world.renew(first.lease) == Lost("superseded", "ann")


def test_a_newer_claim_goes_on_although_an_older_one_has_ended(world: World) -> None:
    """The failover lost the newer claim; the key's record shows the end of the one before."""
    world.finish(held(world, "k1-a"), "U")
    before = world.snapshot()
    world.wait_a_tick()
    lease = held(world, "k1-b")
    world.do(world.restore_op(before))

    answer = world.renew(lease)

    assert answer == Renewed(invalidated=True)


# --- row 5 ---


def test_a_renewal_extends_the_lease_by_the_length_it_asks_for(world: World) -> None:
    lease = held(world, "k1-a")

    answer = world.renew(lease, lease_seconds=45.0)

    assert answer == Renewed(invalidated=False)
    assert lease.expires_at == 45.0
    busy = world.claim(world.ask("k1-b"))
    assert isinstance(busy, Busy)
    assert 35.0 < busy.remaining_seconds <= 45.0


def test_an_ended_lease_that_nobody_took_is_revived(world: World) -> None:
    lease = held(world, "k1-a")
    world.lose(world.slot("k1-a").lease)

    answer = world.renew(lease)

    assert answer == Renewed(invalidated=False)
    assert isinstance(world.claim(world.ask("k1-b")), Busy)


def test_a_renewal_tells_that_the_key_was_invalidated_and_keeps_it_so(world: World) -> None:
    lease = held(world, "k1-a")
    world.invalidate("k1")

    first, second = world.renew(lease), world.renew(lease)

    assert first == second == Renewed(invalidated=True)


def test_a_lease_whose_record_was_evicted_goes_on_without_the_right_to_fill(world: World) -> None:
    lease = held(world, "k1-a")
    world.lose(world.slot("k1-a").key)

    answer = world.renew(lease)

    assert answer == Renewed(invalidated=True)
    world.finish(lease, "D")
    assert isinstance(world.claim(world.ask("k1-b")), Acquired)


def test_a_started_body_is_marked_and_its_attempt_counted_once(world: World) -> None:
    run_and_die(world, "k1-a")
    suspect = held(world, "k1-a")

    world.renew(suspect, started=True)
    world.renew(suspect, started=True)

    assert suspect.started
    world.lose(world.slot("k1-a").lease)
    after = world.claim(world.ask("k1-a"))
    assert isinstance(after, Acquired)
    assert after.attempt == 3


def test_a_started_body_that_was_counted_at_its_claim_is_not_counted_again(world: World) -> None:
    lease = held(world, "k1-a")

    world.renew(lease, started=True)

    world.lose(world.slot("k1-a").lease)
    after = world.claim(world.ask("k1-a"))
    assert isinstance(after, Acquired)
    assert (after.attempt, after.suspect) == (2, True)


def test_a_renewal_without_a_mark_confirms_no_start(world: World) -> None:
    lease = held(world, "k1-a")

    world.renew(lease)

    assert not lease.started
    world.lose(world.slot("k1-a").lease)
    after = world.claim(world.ask("k1-a"))
    assert isinstance(after, Acquired)
    assert after.attempt == 1


def test_an_evicted_record_is_made_again_as_a_suspects(world: World) -> None:
    lease = held(world, "k1-a")
    world.lose(world.slot("k1-a").record)

    world.renew(lease, started=True)

    world.lose(world.slot("k1-a").lease)
    after = world.claim(world.ask("k1-a"))
    assert isinstance(after, Acquired)
    assert (after.attempt, after.suspect, after.takeover) == (2, True, True)


def test_an_evicted_record_whose_body_has_not_started_counts_nothing(world: World) -> None:
    lease = held(world, "k1-a")
    world.lose(world.slot("k1-a").record)

    world.renew(lease)

    world.lose(world.slot("k1-a").lease)
    after = world.claim(world.ask("k1-a"))
    assert isinstance(after, Acquired)
    assert (after.attempt, after.suspect) == (1, True)


def test_an_older_record_after_a_failover_becomes_this_claims(world: World) -> None:
    run_and_die(world, "k1-a")
    before = world.snapshot()
    world.wait_a_tick()
    lease = held(world, "k1-a", owner="ben")
    world.do(world.restore_op(before))

    answer = world.renew(lease, "ben", started=True)

    assert answer == Renewed(invalidated=True)
    world.lose(world.slot("k1-a").lease)
    after = world.claim(world.ask("k1-a"))
    assert isinstance(after, Acquired)
    assert (after.attempt, after.abandoned_owner) == (3, "ben")
