"""The checker: silent about a right run, and loud about each thing that can be wrong with one."""

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from infra.local.checker import Report, check
from infra.local.evidence import (
    DeadLetter,
    Evidence,
    Execution,
    Item,
    Measures,
    Write,
    execution_of,
    outcome_write,
)
from infra.local.oracle import Oracle
from infra.local.workload import JOB, Workload, plan
from tests.flight_data import invented_month

MONTHS = {month: invented_month(month, flights=200).encode() for month in ("2013-01", "2013-02")}
WORKLOAD = plan(300, seed=7, months=sorted(MONTHS))
ORACLE = Oracle(MONTHS)


def item(job_id: str, result: object) -> Item:
    return {
        "pk": {"S": f"{JOB}/{job_id}"},
        "st": {"S": "done"},
        "result": {"B": json.dumps(result).encode()},
    }


def right_run(workload: Workload = WORKLOAD) -> Evidence:
    """Make the evidence of a run that did everything once: first come, first computed."""
    rows, writes, executions = [], [], []
    known: set[str] = set()
    for at, (job_id, question) in enumerate(workload.asked.items()):
        if question.key not in known:
            known.add(question.key)
            executions.append(Execution(job_id=job_id, key=question.key, at=at))
        rows.append(item(job_id, ORACLE.report(*question)))
        writes.append(Write(item_key=f"{JOB}/{job_id}", at=at + 0.5))
    dead_letters = []
    for message in workload.messages:
        if message.kind == "damaged" and message.job_id and message.question:
            executions += [
                Execution(job_id=message.job_id, key=message.question.key, at=at) for at in range(3)
            ]
        if not message.succeeds:
            attributes = {"sekali.reason": min(message.reasons)}
            dead_letters.append(DeadLetter(body=message.body, attributes=attributes))
    return Evidence(rows=rows, writes=writes, executions=executions, dead_letters=dead_letters)


def checked(evidence: Evidence) -> Report:
    return check(WORKLOAD, evidence, oracle=ORACLE)


def first_asked() -> tuple[str, str]:
    """Return an id whose own body ran, and its key."""
    job_id, question = next(iter(WORKLOAD.asked.items()))
    return job_id, question.key


def test_right_run_is_sound_and_its_figures_add_up() -> None:
    report = checked(right_run())

    assert report.problems == []
    assert report.sound
    assert (report.lost, report.double_effects, report.wrong_results) == (0, 0, 0)
    assert report.sent == 300
    assert report.completed == report.distinct_ids
    assert report.loads == report.distinct_keys
    assert report.loads_explained["first"] == report.loads
    assert report.served_from_cache == report.distinct_ids - report.distinct_keys
    assert report.dead_lettered == 300 - report.completed - report.duplicates_suppressed


def test_report_is_json_with_the_documented_names() -> None:
    report = json.loads(json.dumps(checked(right_run()).to_json()))

    assert set(report) >= {
        *("sent", "distinct_ids", "distinct_keys", "completed", "loads", "duplicates_suppressed"),
        *("served_from_cache", "dead_lettered", "lost", "double_effects", "wrong_results"),
        *("takeovers", "round_trips_per_batch", "hit_ratio", "latency_ms", "seconds"),
        *("contended_keys", "sound"),
    }
    assert set(report["round_trips_per_batch"]) >= {"median", "max"}
    assert set(report["hit_ratio"]) == {"local", "shared"}
    assert set(report["latency_ms"]) == {"p50", "p95", "p99"}


def without_first_row(evidence: Evidence) -> Evidence:
    return replace(evidence, rows=list(evidence.rows)[1:])


def with_failed_row(evidence: Evidence) -> Evidence:
    first, *rest = evidence.rows
    return replace(evidence, rows=[first | {"st": {"S": "failed"}}, *rest])


def without_first_dead_letter(evidence: Evidence) -> Evidence:
    return replace(evidence, dead_letters=evidence.dead_letters[1:])


def with_one_dead_letter_for_two_messages(evidence: Evidence) -> Evidence:
    """A failing job was sent twice; one of its messages vanished."""
    kept, seen = [], set()
    for letter in evidence.dead_letters:
        if letter.body not in seen:
            seen.add(letter.body)
            kept.append(letter)
    return replace(evidence, dead_letters=kept)


@pytest.mark.parametrize(
    "lose",
    [
        without_first_row,
        with_failed_row,
        without_first_dead_letter,
        with_one_dead_letter_for_two_messages,
    ],
)
def test_lost_message_is_found(lose: Callable[[Evidence], Evidence]) -> None:
    report = checked(lose(right_run()))

    assert (report.lost, report.double_effects, report.wrong_results) == (1, 0, 0)
    assert not report.sound


def test_message_that_still_waits_makes_a_run_unsound() -> None:
    report = checked(replace(right_run(), left_in_queue=1))

    assert not report.sound


def test_wrong_result_is_found() -> None:
    run = right_run()
    job_id, _ = first_asked()
    wrong = item(job_id, {"flights": 0})

    report = checked(replace(run, rows=[wrong, *list(run.rows)[1:]]))

    assert (report.lost, report.double_effects, report.wrong_results) == (0, 0, 1)
    assert report.problems[0].startswith(f"wrong_results: {job_id}")


def test_result_behind_a_pointer_is_read() -> None:
    run = right_run()
    job_id, question = next(iter(WORKLOAD.asked.items()))
    pointing = {key: value for key, value in item(job_id, None).items() if key != "result"}
    pointing["pointer"] = {"S": "results/x"}
    stored = {"results/x": json.dumps(ORACLE.report(*question)).encode()}

    report = checked(
        replace(run, rows=[pointing, *list(run.rows)[1:]], fetch=lambda key: stored[key])
    )

    assert report.sound


def test_dead_letter_of_a_good_message_is_found() -> None:
    run = right_run()
    good = next(message for message in WORKLOAD.messages if message.succeeds)
    letter = DeadLetter(body=good.body, attributes={"sekali.reason": "failed"})

    report = checked(replace(run, dead_letters=[*run.dead_letters, letter]))

    assert (report.lost, report.wrong_results) == (0, 1)


def test_dead_letter_with_a_wrong_reason_is_found() -> None:
    run = right_run()
    silent = replace(run.dead_letters[0], attributes={})

    report = checked(replace(run, dead_letters=[silent, *run.dead_letters[1:]]))

    assert (report.lost, report.wrong_results) == (0, 1)
    assert report.dead_lettered_by_reason["none"] == 1


def test_bad_message_that_succeeded_is_found() -> None:
    run = right_run()
    absent = next(message for message in WORKLOAD.messages if message.kind == "absent")

    report = checked(replace(run, rows=[*run.rows, item(str(absent.job_id), {})]))

    assert report.wrong_results == 1


def doubled(job_id: str, key: str, *, at: float, interrupted: bool = False) -> Report:
    """Check a right run in which one more body started."""
    run = right_run()
    more = Execution(job_id=job_id, key=key, at=at, interrupted=interrupted)
    return checked(replace(run, executions=[*run.executions, more]))


def test_second_body_of_an_id_is_a_double_effect_even_after_the_ttl() -> None:
    report = doubled(*first_asked(), at=9_999.0)

    assert report.double_effects == 1


def test_body_of_another_id_of_a_computed_key_is_a_double_effect() -> None:
    _, key = first_asked()

    report = doubled("somebody-else", key, at=5.0)

    assert report.double_effects == 1
    assert report.loads_explained["unexplained"] == 1


def test_body_of_another_id_after_the_ttl_is_explained() -> None:
    _, key = first_asked()

    report = doubled("somebody-else", key, at=9_999.0)

    assert report.sound
    assert report.loads_explained["after_ttl"] == 1


def test_body_after_a_killed_one_is_explained_and_counts_as_a_takeover() -> None:
    job_id, key = first_asked()

    report = doubled(job_id, key, at=-15.0, interrupted=True)

    assert report.sound
    assert report.loads == report.distinct_keys + 1
    assert report.loads_explained["after_kill"] == 1
    assert report.takeovers_seen == 1


def test_killed_body_of_a_key_that_was_computed_is_a_double_effect() -> None:
    _, key = first_asked()

    report = doubled("somebody-else", key, at=5.0, interrupted=True)

    assert report.double_effects == 1


def test_body_that_starts_after_its_id_was_recorded_is_a_double_effect() -> None:
    """The killed invocation had recorded its job: whoever took over had to find that."""
    run = right_run()
    first, *rest = run.executions
    again = replace(first, at=5.0)

    report = checked(replace(run, executions=[replace(first, interrupted=True), again, *rest]))

    assert report.double_effects == 1
    assert "after it was recorded" in report.problems[0]


def test_fourth_body_of_a_job_with_three_attempts_is_a_double_effect() -> None:
    damaged = next(message for message in WORKLOAD.messages if message.kind == "damaged")
    assert damaged.question is not None

    report = doubled(str(damaged.job_id), damaged.question.key, at=9.0)

    assert report.double_effects == 1


def test_second_outcome_that_the_table_accepts_is_a_double_effect() -> None:
    run = right_run()

    report = checked(replace(run, writes=[*run.writes, run.writes[0]]))

    assert report.double_effects == 1


def test_measures_are_summed_up() -> None:
    job_id, _ = first_asked()
    measures = Measures(
        seconds=12.345,
        cold_round_trips=[2, 2, 4],
        warm_round_trips=[1, 1],
        local_hits=50,
        shared_hits=25,
        misses=25,
        takeovers=1,
        sent_at={job_id: 0.25, "never recorded": 0.0},
    )

    report = checked(replace(right_run(), measures=measures))

    assert (report.seconds, report.takeovers) == (12.35, 1)
    assert report.round_trips_per_batch["median"] == 2
    assert report.round_trips_per_batch["max"] == 4
    assert report.hit_ratio == {"local": 0.5, "shared": 0.25}
    assert report.latency_ms == {"p50": 250.0, "p95": 250.0, "p99": 250.0}


def test_only_the_line_of_a_started_body_is_an_execution() -> None:
    line = '{"message": "computing report", "job_id": "a", "key": "k", "at": 1.5}'

    assert execution_of(line, interrupted=True) == Execution(
        job_id="a", key="k", at=1.5, interrupted=True
    )
    assert execution_of('{"message": "loading flights"}', interrupted=False) is None
    assert execution_of("computing report", interrupted=False) is None
    assert execution_of('["computing report"]', interrupted=False) is None


def test_only_a_final_status_is_an_outcome() -> None:
    assert outcome_write({"pk": {"S": "a"}, "st": {"S": "done"}}, at=1.0) == Write(
        item_key="a", at=1.0
    )
    assert outcome_write({"pk": {"S": "a"}, "st": {"S": "running"}}) is None
    assert outcome_write({"pk": {"S": "a"}}) is None
