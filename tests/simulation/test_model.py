"""Hold the model against what can be computed by hand, and against its own rules."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.simulation.cache import Cache
from tests.simulation.inputs import Asked, Costs, Load, Policy
from tests.simulation.model import Fleet
from tests.simulation.servers import Servers
from tests.simulation.world import World

if TYPE_CHECKING:
    from tests.simulation.outcome import Outcome

FREE = Costs(
    poll=0.0,
    poll_record=0.0,
    look=0.0,
    queue_call=0.0,
    batch=0.0,
    answered_record=0.0,
    run_record=0.0,
    flush=0.0,
    write=0.0,
    write_wait=0.0,
    start=0.0,
    round_trip=0.0,
    claim=0.0,
    finish=0.0,
)
SOME = Load(jobs=200, keys=20, keyed=0.5, repeated=0.2, per_second=100.0)


def run(messages: list[Asked], policy: Policy, costs: Costs = FREE) -> Outcome:
    return Fleet(costs, policy, seed=1).run(messages)


def apart(count: int, seconds: float) -> list[Asked]:
    return [Asked(0.0, number, -number - 1, seconds) for number in range(count)]


def test_equal_bodies_take_their_sum_over_the_containers() -> None:
    outcome = run(apart(40, 0.5), Policy(batch_size=1, concurrency=4, first_pollers=4))

    assert outcome.seconds == pytest.approx(40 * 0.5 / 4)
    assert outcome.latency(1.0) == pytest.approx(5.0)
    assert outcome.most_containers == 4


def test_one_server_with_random_arrivals_waits_as_the_formula_of_pollaczek_says() -> None:
    # M/D/1 at half its capacity: half a service time of waiting on average.
    load = Load(jobs=20_000, run_seconds=1e-9)
    chance = list(Load(jobs=20_000, per_second=None, run_seconds=2.0).messages(3))
    at, messages = 0.0, []
    for number, (asked, drawn) in enumerate(zip(load.messages(3), chance, strict=True)):
        at += min(drawn.seconds, 20.0)
        messages.append(Asked(at, number, asked.key, 1.0))
    mean_gap = at / len(messages)

    outcome = run(messages, Policy(batch_size=1, concurrency=1, first_pollers=1))

    load_factor = 1.0 / mean_gap
    waited = sum(outcome.latencies) / len(messages) - 1.0
    # Gaps are cut at three times their mean, which makes arrivals a little more regular.
    assert waited == pytest.approx(load_factor / (2 * (1 - load_factor)), rel=0.25)


@pytest.mark.parametrize("death_rate", [0.0, 0.5])
def test_every_message_is_settled_once_and_every_key_computed_once(death_rate: float) -> None:
    messages = list(SOME.messages(1))

    outcome = run(messages, Policy(death_rate=death_rate, visibility_seconds=20.0))

    assert len(outcome.latencies) == len(messages)
    assert set(outcome.bodies) == {asked.key for asked in messages}
    assert outcome.amplification == 1.0
    assert (outcome.deaths > 0) == (death_rate > 0)


def test_the_dead_come_back_when_their_visibility_ends() -> None:
    policy = Policy(batch_size=1, death_rate=0.02, visibility_seconds=30.0, lease_seconds=10.0)

    outcome = run(apart(200, 2.0), policy)

    assert outcome.deaths > 0
    assert outcome.receives[1] < 200 == outcome.receives.total()
    assert max(outcome.latencies) > 30.0


def test_a_job_that_was_recorded_before_its_container_died_is_not_run_again() -> None:
    messages = [Asked(0.0, number, -number - 1, 0.5) for number in range(10)]
    policy = Policy(concurrency=1, first_pollers=1, death_rate=0.15, visibility_seconds=30.0)

    outcomes = [Fleet(FREE, policy, seed=seed).run(messages) for seed in range(20)]

    assert any(outcome.deaths for outcome in outcomes)
    assert all(outcome.loads == 10 for outcome in outcomes)
    assert all(outcome.receives[1] == 0 for outcome in outcomes if outcome.deaths)


def test_without_leases_a_key_is_computed_by_everybody_who_finds_nothing() -> None:
    same = [Asked(0.0, number, 7, 1.0) for number in range(20)]
    policy = Policy(batch_size=1, concurrency=10, first_pollers=10)

    with_leases, without = run(same, policy), run(same, replace(policy, leases=False))

    assert with_leases.bodies[7] == 1
    assert without.bodies[7] == 10


def test_who_finds_a_key_busy_stays_away_for_as_long_as_its_holder_needs() -> None:
    policy = Policy(batch_size=1, concurrency=2, first_pollers=2, lease_seconds=10.0)
    same = [Asked(0.0, 1, 7, 3.0), Asked(0.0, 2, 7, 3.0)]

    outcome = run(same, policy)

    # Nothing of the lease is over yet; the delay is jittered by a quarter, in whole seconds.
    assert outcome.deferrals == 1
    assert 10.0 <= max(outcome.latencies) <= 13.0


def test_of_a_lease_that_is_renewed_two_thirds_are_left_at_least() -> None:
    world = World(FREE, Policy(lease_seconds=9.0), seed=1)
    cache = Cache(world)

    taken = cache.acquire(7, mean_run=0.0)
    left = []
    for second in range(1, 200):
        world.env.run(second)
        left.append(cache.acquire(7, mean_run=0.0) or 0.0)

    assert taken is None
    assert left[:2] == [8.0, 7.0]
    assert 6.0 <= min(left) <= 6.5
    assert 8.5 <= max(left) <= 9.0


def test_a_message_is_gone_when_its_batch_is_but_its_result_is_there_before() -> None:
    outcome = run(apart(10, 0.5), Policy(concurrency=1, first_pollers=1))

    assert outcome.latencies == pytest.approx([5.0] * 10)
    assert outcome.waits == pytest.approx([0.5 * number for number in range(1, 11)])


def test_what_has_ended_is_recorded_beside_a_body_that_runs_on() -> None:
    short_and_long = [Asked(0.0, 1, -1, 0.1), Asked(0.0, 2, -2, 3.0)]
    costs = replace(FREE, write_wait=0.05)

    outcome = run(short_and_long, Policy(concurrency=1, first_pollers=1), costs)

    assert outcome.waits == pytest.approx([0.3, 3.15])


def test_a_poll_that_looks_in_steps_sees_a_message_half_a_step_late_on_average() -> None:
    messages = [Asked(number * 1.0173, number, -number - 1, 0.01) for number in range(500)]
    policy = Policy(batch_size=1, concurrency=1, first_pollers=1)

    at_once = run(messages, policy)
    in_steps = run(messages, policy, replace(FREE, look=0.1))

    assert sum(at_once.latencies) / 500 == pytest.approx(0.01)
    assert sum(in_steps.latencies) / 500 == pytest.approx(0.06, rel=0.05)


def test_after_a_flush_each_key_is_computed_once_more() -> None:
    first = [Asked(0.0, number, number % 5, 0.1) for number in range(50)]
    later = [Asked(60.0, 100 + number, number % 5, 0.1) for number in range(50)]

    outcome = run([*first, *later], Policy(flush_at=30.0))

    assert outcome.loads == 10


def test_a_value_that_was_served_before_a_flush_does_not_come_back_after_it() -> None:
    computed = [Asked(0.0, 1, 7, 0.1)]
    # Served at 29, at the end of a batch whose first body lasts until 32.
    around = [Asked(29.0, 2, -2, 3.0), Asked(29.0, 3, 7, 0.1)]
    later = [Asked(40.0, 4, 7, 0.1)]

    outcome = run([*computed, *around, *later], Policy(flush_at=30.0, concurrency=1))

    assert outcome.bodies[7] == 2


def test_a_shard_that_is_asked_for_more_than_it_can_do_is_what_all_wait_for() -> None:
    costs = replace(FREE, claim=0.01, finish=0.01)

    outcome = run(apart(1_000, 0.001), Policy(concurrency=1_000, first_pollers=1_000), costs)

    assert outcome.seconds == pytest.approx(1_000 * 0.02, rel=0.05)
    assert outcome.busiest_shard > 0.9


def test_servers_take_one_request_after_the_other() -> None:
    servers = Servers(2)

    assert [servers.serve(0.0, 1.0) for _ in range(4)] == [1.0, 1.0, 2.0, 2.0]
    assert servers.serve(10.0, 0.5) == 10.5
    assert servers.busy_seconds == 4.5


def test_the_same_seed_draws_the_same_messages() -> None:
    assert list(SOME.messages(5)) == list(SOME.messages(5))
    assert list(SOME.messages(5)) != list(SOME.messages(6))


def test_a_run_that_settles_nothing_has_no_latency() -> None:
    outcome = Fleet(FREE, Policy(concurrency=1), seed=1).run(apart(3, 50.0), until=10.0)

    assert math.isnan(outcome.latency(0.5))
    assert outcome.seconds == 10.0
