"""The demo's plan: the same for the same seed, a realistic mix, and exactly what was asked for."""

import json
from collections import Counter

import pytest

from infra.local.flights import MONTHS
from infra.local.workload import Planned, derived_id, identity, plan
from sekali.errors import MessageInvalid
from sekali.message import decode

JOBS = {"delay-report"}


def record(message: Planned) -> dict[str, object]:
    attributes = {
        name: {"stringValue": value, "dataType": "String"}
        for name, value in message.attributes.items()
    }
    return {"body": message.body, "messageAttributes": attributes}


@pytest.mark.parametrize("number", [1, 2, 25, 100, 777, 2_000])
def test_plan_has_exactly_the_messages_that_were_asked_for(number: int) -> None:
    assert len(plan(number, seed=1, months=MONTHS).messages) == number


def test_same_seed_gives_the_same_plan_and_another_seed_another() -> None:
    one, same, other = (plan(300, seed=seed, months=MONTHS) for seed in (1, 1, 2))

    assert one == same
    assert one.messages != other.messages


def test_plan_without_messages_or_months_is_refused() -> None:
    with pytest.raises(ValueError, match="needs messages and months, got 0 and 12"):
        plan(0, seed=1, months=MONTHS)
    with pytest.raises(ValueError, match="got 5 and 0"):
        plan(5, seed=1, months=[])


def test_mix_has_hot_reports_a_long_tail_and_every_kind_of_trouble() -> None:
    workload = plan(2_000, seed=1, months=MONTHS)

    asked = Counter(question.key for question in workload.asked.values())
    kinds = workload.kinds

    assert sum(number for _, number in asked.most_common(5)) > 400
    assert sum(number == 1 for number in asked.values()) > 100
    assert 150 < kinds["duplicate"] < 250
    assert 50 < kinds["again"] < 150
    assert kinds["malformed"] == 11
    assert (kinds["absent"], kinds["damaged"]) == (4, 2)
    assert (kinds["misfit"], kinds["mismatch"]) == (4, 2)


def test_duplicate_arrives_soon_after_its_original() -> None:
    messages = plan(500, seed=3, months=MONTHS).wave(0)
    first_at = {(m.body, m.job_id): at for at, m in reversed(list(enumerate(messages)))}

    gaps = [
        at - first_at[message.body, message.job_id]
        for at, message in enumerate(messages)
        if message.kind == "duplicate"
    ]

    assert gaps
    assert min(gaps) > 0


def test_second_wave_repeats_ids_of_the_first() -> None:
    workload = plan(500, seed=3, months=MONTHS)
    first = {message.job_id for message in workload.wave(0)}

    second = workload.wave(1)

    assert {message.kind for message in second} == {"again", "mismatch"}
    assert {message.job_id for message in second} <= first


def test_worker_reads_each_good_message_as_the_plan_means_it() -> None:
    for message in plan(1_000, seed=5, months=MONTHS).messages:
        if not message.succeeds:
            continue
        decoded = decode(record(message), default_job="delay-report", jobs=JOBS)

        assert message.question is not None
        assert decoded.id == message.job_id
        assert decoded.payload == message.question.payload


def test_worker_refuses_each_malformed_message_for_the_planned_reason() -> None:
    workload = plan(1_000, seed=5, months=MONTHS)

    found = set()
    for message in workload.messages:
        if message.kind == "malformed":
            with pytest.raises(MessageInvalid) as caught:
                decode(record(message), default_job="delay-report", jobs=JOBS)
            found.add(caught.value.reason)
            assert {caught.value.reason} == message.reasons

    assert found == {
        "not_json",
        "not_object",
        "empty",
        "wrong_version",
        "missing_field",
        "wrong_type",
        "unknown_job",
    }


def test_id_of_a_plain_body_is_derived_as_the_worker_does() -> None:
    payload = {"month": "2013-01", "carrier": "UA"}

    decoded = decode({"body": json.dumps(payload)}, default_job="delay-report")

    assert decoded.id == derived_id(payload)


def test_identity_is_kept_by_a_copy_and_differs_by_id_and_payload() -> None:
    body = '{"sekali": 1, "id": "a", "payload": {"x": 1, "y": 2}}'
    copy = '{"deferrals":2,"id":"a","payload":{"y":2,"x":1},"sekali":1}'

    assert identity(body) == identity(copy)
    assert identity(body) != identity(body.replace('"a"', '"b"'))
    assert identity(body) != identity(body.replace("2", "3"))
    assert identity("no json") == "no json"
