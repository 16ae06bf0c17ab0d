"""Which keys are contended and which fail, as Contributor Insights reads it out of real lines."""

from __future__ import annotations

import json
import re
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from infra.local.cloudwatch.contributors import Ranking
from infra.monitoring.queries import QUERIES
from sekali import PermanentError, Recovery, Worker, cache, lease, warm
from tests.infra.monitored import spelled_out
from tests.worker_kit import Context, Kit, event, job, started_kit

if TYPE_CHECKING:
    from redis import Redis

    from sekali import Job
    from tests.infra.synthesized import Synthesized

pytestmark = pytest.mark.slow

RULE = "AWS::CloudWatch::InsightRule"
QUERY = "AWS::Logs::QueryDefinition"
# What CloudWatch adds to each line.
ADDED = {"@timestamp"}
_numbers = count()


@pytest.fixture
def lines(
    monkeypatch: pytest.MonkeyPatch,
    valkey: Redis,
    valkey_url: str,
    capsys: pytest.CaptureFixture[str],
) -> list[dict[str, Any]]:
    """What functions print of a key that fails, one that is held, a held load, a leaked lock."""
    # Powertools keeps one logger of a name, which writes to the output of the test that was first.
    monkeypatch.setenv("SEKALI_SERVICE", f"rankings-{next(_numbers)}")
    monkeypatch.setenv("SEKALI_CACHE_TIMEOUT_SECONDS", "10")
    with started_kit(monkeypatch, valkey_url) as kit:
        warm.reset()
        run(kit, valkey)
    printed = capsys.readouterr().out.splitlines()
    return [json.loads(line) for line in printed if line.startswith("{") and '"_aws"' not in line]


def run(kit: Kit, valkey: Redis) -> None:
    """Let a worker meet each of them."""
    worker = Worker("flight-reports")

    @worker.job("report", key="{payload[key]}", ttl_seconds=60)
    def report(asked: Job) -> str:
        if asked.key == "poison":
            raise PermanentError("damaged")
        if asked.key == "weak":
            raise OSError("no answer")
        if asked.key == "held":
            elsewhere(lambda: deliver("waits", "held"))
            elsewhere(lambda: deliver("waits too", "held"))
        return "done"

    def deliver(job_id: str, key: str) -> None:
        worker.handler(event(job(job_id, {"key": key}, name="report")), Context(seconds=10))

    def elsewhere(act: Any) -> None:  # Any: whatever another container does
        here = warm.container()
        other = warm.Container(here.settings, emit=here.emit)
        with warm.inside(other):
            act()
        other.close()

    def load() -> str:
        def impatient() -> None:
            with cache() as tiers:
                tiers.get_or_load("month", lambda: "own", wait_seconds=0.01)

        elsewhere(impatient)
        return "flights"

    for number, key in enumerate(("good", "poison", "weak", "weak", "held")):
        deliver(f"id-{number}", key)
    with cache() as tiers:
        tiers.get_or_load("month", load)
    with lease("ledger"):
        valkey.delete(*valkey.scan_iter(match="*:lease:@/ledger"))
        Recovery("flight-reports").handler({}, None)
    del kit


def ranked(stack: Synthesized, name: str, lines: list[dict[str, Any]]) -> dict[Any, float]:
    """What a rule of the template ranks among some lines, by job and key."""
    (body,) = [
        json.loads(spelled_out(one["RuleBody"], stack))
        for one in stack.of(RULE).values()
        if one["RuleName"] == f"Sekali-dev-{name}"
    ]
    ranking = Ranking(name, body)
    for line in lines:
        ranking.take(line, log_group=body["LogGroupNames"][0], at=60.0)
    return {one.keys: one.total for one in ranking.top(10, start=0, end=600)}


def test_contended_keys_are_ranked_whoever_waits_for_them(
    dev: Synthesized, lines: list[dict[str, Any]]
) -> None:
    found = ranked(dev, "contended-keys", lines)

    # The second attempt of the weak one came while its key was cooling.
    assert found == {("report", "held"): 2, ("report", "weak"): 1, ("cache", "month"): 1}


def test_failing_keys_are_ranked_and_healthy_ones_are_not_among_them(
    dev: Synthesized, lines: list[dict[str, Any]]
) -> None:
    found = ranked(dev, "failing-keys", lines)

    assert found == {("report", "poison"): 1, ("report", "weak"): 1}


def test_a_line_without_the_field_that_a_rule_reads_is_not_ranked(
    dev: Synthesized, lines: list[dict[str, Any]]
) -> None:
    """Mutant: the same lines, their reasons called something else."""
    renamed = [{("why" if k == "reason" else k): v for k, v in line.items()} for line in lines]

    assert ranked(dev, "contended-keys", renamed) == {}
    assert ranked(dev, "failing-keys", renamed) == {}


def test_rules_read_the_log_groups_of_every_function(every: Synthesized) -> None:
    groups = {
        one["LoggingConfig"]["LogGroup"]["Ref"].lower()
        for one in every.of("AWS::Lambda::Function").values()
    }
    for one in every.of(RULE).values():
        body = json.loads(spelled_out(one["RuleBody"], every))

        assert set(body["LogGroupNames"]) == groups
        assert one["RuleState"] == "ENABLED"
        assert body["LogFormat"] == "JSON"
    for one in every.of(QUERY).values():
        assert {name["Ref"].lower() for name in one["LogGroupNames"]} == groups


def test_every_field_that_a_saved_query_reads_is_in_some_line(
    dev: Synthesized, lines: list[dict[str, Any]]
) -> None:
    written = {field for line in lines for field in line} | ADDED
    messages = {line["message"] for line in lines}

    for name, steps in QUERIES.items():
        read, made = fields_of(steps)
        assert read - made <= written, name
        for wanted in re.findall(r"message = '([^']+)'", " ".join(steps)):
            assert wanted in messages
    assert {one["Name"] for one in dev.of(QUERY).values()} == {
        f"Sekali-dev/{name}" for name in QUERIES
    }


def fields_of(steps: tuple[str, ...]) -> tuple[set[str], set[str]]:
    """The fields that a query reads, and those that it makes itself."""
    words = {"fields", "filter", "sort", "limit", "stats", "and", "in", "by", "as", "asc", "desc"}
    text = re.sub(r"'[^']*'", "", " ".join(steps))
    made = set(re.findall(r"\bas (\w+)", text))
    names = set(re.findall(r"@?[A-Za-z_]\w*", text)) - {"count", "max", "min", "latest"}
    return names - words, made
