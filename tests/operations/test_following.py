"""Following a page has teeth: what a page gets wrong is an error, not a step that was skipped."""

from __future__ import annotations

import pytest

from infra.invalid import ConfigInvalid
from tests.operations.insights import QueryUnknown, answer
from tests.operations.pages import StepUnknown, check_deployment

LINES = (
    {"message": "record settled", "job": "a", "key": "1", "reason": "busy", "run_ms": 2.0},
    {"message": "record settled", "job": "a", "key": "1", "reason": "cooling", "run_ms": 4.0},
    {"message": "record settled", "job": "a", "key": "2", "reason": "done", "failure": "OSError"},
    {"message": "something else"},
)


def test_query_counts_groups_and_ranks() -> None:
    query = """
    filter reason in ['busy', 'cooling']
    | stats count(*) as waits, max(run_ms) as longest, avg(run_ms) as mean by job, key
    | sort waits desc
    | limit 1
    """

    assert answer(query, LINES) == [
        {"job": "a", "key": "1", "waits": 2, "longest": 4.0, "mean": 3.0}
    ]


def test_line_without_the_field_passes_no_filter() -> None:
    assert answer("filter failure != ''\n| fields failure", LINES) == [{"failure": "OSError"}]
    assert answer("filter message = 'record settled' and reason = 'done'", LINES) == [LINES[2]]


@pytest.mark.parametrize(
    "query",
    ["dedup key", "filter run_ms > 3", "stats sum(run_ms) as sum by job", "filter reason like 'x'"],
)
def test_query_that_is_not_known_here_is_refused(query: str) -> None:
    with pytest.raises(QueryUnknown):
        answer(query, LINES)


def test_deployment_with_a_misspelt_setting_is_refused() -> None:
    check_deployment(["deploy", "-c", "stage=prod", "-c", "max_concurrency=10"])

    with pytest.raises(ConfigInvalid):
        check_deployment(["deploy", "-c", "stage=prod", "-c", "max_concurency=10"])
    with pytest.raises(StepUnknown):
        check_deployment(["destroy"])
