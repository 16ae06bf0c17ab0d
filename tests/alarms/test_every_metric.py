"""A run of the local stack emits what dashboards and alarms read, and nothing besides.

Names, namespaces and every dimension are compared. What a run of a minute cannot bring about has
another test, named beside it.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from infra.local.cloudwatch.definitions import MetricAlarm, widget_queries
from infra.local.cloudwatch.names import MetricName, metric
from infra.local.flights import ABSENT_MONTH, DAMAGED_MONTH
from infra.local.storm import Storm
from tests.alarms import scenarios
from tests.alarms.stage import Stage

if TYPE_CHECKING:
    from collections.abc import Iterable
    from collections.abc import Set as AbstractSet

    from infra.local.template import Template

pytestmark = pytest.mark.slow

WITHIN_SECONDS = 240.0
ELSEWHERE = {
    # Scenarios of their own, with another policy or a shorter lease (scenarios.py).
    "HoldersSuperseded": "a container stands still",
    "JobsDegraded": "the shared cache is away",
    "LeasesLost": "a container stands still",
    # What the example does not do; the real worker does it in tests/valkey/test_emitted_metrics.py.
    "CacheFillsRefused": "a load that is invalidated meanwhile",
    "CacheStaleServed": "a loader that fails",
    "CacheUnreadableValues": "a foreign value",
    "LeasesRevoked": "SEKALI_REVOKE_ENDLESS",
    "LocalFlushesClock": "a clock that is set back",
    "LocalFlushesGap": "ten thousand missed entries of the log",
}


def read_by(template: Template) -> set[MetricName]:
    """Answer every metric that a widget or an alarm reads."""
    monitoring = template.monitoring
    queries = [
        query
        for board in monitoring.dashboards
        for widget in board.widgets
        for query in widget_queries(widget.get("properties", {}))
    ]
    queries += [q for one in monitoring.alarms if isinstance(one, MetricAlarm) for q in one.queries]
    return {query.metric for query in queries if query.metric is not None}


def silent(read: AbstractSet[MetricName], emitted: Iterable[MetricName]) -> set[str]:
    """Answer what is read and not emitted, less what has another test."""
    return {str(name) for name in read - set(emitted) if name.name not in ELSEWHERE}


def unread(read: AbstractSet[MetricName], emitted: Iterable[MetricName]) -> set[str]:
    """Answer what the library emits and nobody reads."""
    return {str(name) for name in set(emitted) - read if name.namespace == "Sekali"}


def test_a_metric_of_other_dimensions_is_silent() -> None:
    read = {metric("Sekali", "Records", {"service": "reports"})}
    emitted = {metric("Sekali", "Records", {"Service": "reports"})}

    assert silent(read, emitted) == {"Sekali Records {service=reports}"}
    assert unread(read, emitted) == {"Sekali Records {Service=reports}"}


@pytest.mark.alarms
@pytest.mark.timeout(420)
def test_a_run_emits_what_is_read_and_nothing_else() -> None:
    with Stage(context=scenarios.SHORT_LEASE) as stage:
        read, names = read_by(stage.stack.template), stage.stack.watch.store.names
        stage.settle()
        storm = Storm(stage.stack, stage.months)

        storm.start()
        deadline = time.monotonic() + WITHIN_SECONDS
        while silent(read, names()) and time.monotonic() < deadline:
            stage.repeat()
            stage.ask(1, month=ABSENT_MONTH)
            stage.ask(1, month=DAMAGED_MONTH)
            stage.ask(3, same=True, apart=True)
            stage.ask(10)
            stage.look_for_leaks()
            if storm.is_over:  # it kills too, but perhaps nobody who holds a lease
                scenarios.leave_a_lease_behind(stage)
            time.sleep(0.5)
        storm.join()
        # The reader of the log opens it anew where it was lost.
        scenarios.flush(stage)
        stage.ask(5)
        stage.stack.wait_until_drained(stage.queue, within_seconds=WITHIN_SECONDS)

        assert silent(read, names()) == set()
        assert unread(read, names()) == set()
        assert list(stage.stack.watch.refusals) == []
