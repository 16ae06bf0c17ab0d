"""Hold the comparison with real runs: it is kept, and it fails where the model is damaged."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import pytest

from infra.local.event_source import Delivery
from tests.simulation.__main__ import main
from tests.simulation.check import FIGURES, LOADS, POLICY, compare
from tests.simulation.inputs import Load
from tests.simulation.model import Fleet
from tests.simulation.recorded import RECORDED, read, save
from tests.simulation.rehearsal import latencies

if TYPE_CHECKING:
    from pathlib import Path

    from tests.simulation.inputs import Costs, Policy


class WithoutLeases(Fleet):
    def __init__(self, costs: Costs, policy: Policy, *, seed: int, warm: int = 0) -> None:
        super().__init__(costs, replace(policy, leases=False), seed=seed, warm=warm)


class HalfALease(Fleet):
    def __init__(self, costs: Costs, policy: Policy, *, seed: int, warm: int = 0) -> None:
        halved = replace(policy, lease_seconds=policy.lease_seconds / 2)
        super().__init__(costs, halved, seed=seed, warm=warm)


class OneContainerLess(Fleet):
    def __init__(self, costs: Costs, policy: Policy, *, seed: int, warm: int = 0) -> None:
        fewer = replace(policy, concurrency=policy.concurrency - 1)
        super().__init__(costs, fewer, seed=seed, warm=warm)


class RecordsOneByOne(Fleet):
    def __init__(self, costs: Costs, policy: Policy, *, seed: int, warm: int = 0) -> None:
        super().__init__(costs, replace(policy, batch_size=1), seed=seed, warm=warm)


class SlowTable(Fleet):
    def __init__(self, costs: Costs, policy: Policy, *, seed: int, warm: int = 0) -> None:
        super().__init__(replace(costs, write=20 * costs.write), policy, seed=seed, warm=warm)


class LooksOnceASecond(Fleet):
    def __init__(self, costs: Costs, policy: Policy, *, seed: int, warm: int = 0) -> None:
        super().__init__(replace(costs, look=1.0), policy, seed=seed, warm=warm)


MUTANTS = [
    WithoutLeases, HalfALease, OneContainerLess, RecordsOneByOne, SlowTable, LooksOnceASecond,
]  # fmt: skip


def test_the_model_predicts_the_recorded_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert {runs.load for runs in read()} == set(LOADS)
    assert all(len(runs.figures) == 5 for runs in read())

    assert main(["--check", "--recorded", str(RECORDED)]) == 0

    shown = capsys.readouterr().out
    assert all(f"| {load} | {figure} |" in shown for load in LOADS for figure in FIGURES)


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_model_that_is_damaged_does_not(mutant: type[Fleet]) -> None:
    compared = [one for runs in read() for one in compare(runs, fleet=mutant, chances=1)]

    assert not all(one.within for one in compared)


def test_runs_that_went_otherwise_are_an_error(tmp_path: Path) -> None:
    cold = next(runs for runs in read() if runs.load.startswith("cold"))
    slower = [{name: 1.4 * figure for name, figure in one.items()} for one in cold.figures]
    save([replace(cold, figures=slower)], tmp_path / "runs.json")

    assert main(["--check", "--recorded", str(tmp_path / "runs.json")]) == 1


def test_runs_of_another_load_stay_in_the_file(tmp_path: Path) -> None:
    cold, hot, _ = read()
    for runs in (cold, hot):
        save([runs], tmp_path / "runs.json")

    assert read(tmp_path / "runs.json") == [cold, hot]


def test_a_machine_that_is_twice_as_slow_changes_what_is_predicted() -> None:
    """Costs that are not the machine's would not."""
    quick = Load(jobs=300, run_seconds=0.001)
    costs = read()[0].costs
    doubled = {name: 2 * seconds for name, seconds in asdict(costs).items() if name != "cores"}
    slow = replace(costs, **doubled)

    taken = [Fleet(one, POLICY, seed=1, warm=3).run(quick.messages(1)) for one in (costs, slow)]

    assert taken[1].seconds == pytest.approx(2 * taken[0].seconds, rel=0.2)


def _delivery(job_id: str, *, sent_at: float, at: float, first_sent: float | None) -> Delivery:
    body = {"id": job_id} | ({} if first_sent is None else {"first_sent": first_sent})
    return Delivery(
        message_id="m",
        body=json.dumps(body),
        sent_at=sent_at,
        receives=1,
        request_id="r",
        deleted=True,
        at=at,
    )


def test_a_copy_ends_the_latency_that_its_original_began() -> None:
    deliveries = [
        _delivery("a", sent_at=1.0, at=1.5, first_sent=None),
        _delivery("b", sent_at=1.0, at=2.0, first_sent=None),
        _delivery("a", sent_at=1.5, at=12.0, first_sent=1.0),
    ]

    assert sorted(latencies(deliveries)) == [1.0, 11.0]


def test_a_repeated_id_is_a_message_of_its_own() -> None:
    deliveries = [
        _delivery("a", sent_at=1.0, at=1.5, first_sent=None),
        _delivery("a", sent_at=5.0, at=5.25, first_sent=None),
        _delivery("a", sent_at=5.0, at=5.75, first_sent=None),
    ]

    assert sorted(latencies(deliveries)) == [0.25, 0.5, 0.75]
