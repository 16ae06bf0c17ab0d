"""One event of each kind that is measured, and of each way that a kind is measured in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sekali.telemetry import events

if TYPE_CHECKING:
    from collections.abc import Sequence


def settled(name: str = "job", **fields: object) -> events.RecordSettled:
    """A record that its own body completed, unless `fields` say otherwise."""
    usual: dict[str, object] = {
        "name": name,
        "id": "1",
        "key": "k",
        "outcome": "delete",
        "source": "body",
        "queue_seconds": 0.1,
        "run_seconds": 0.2,
        "latency_seconds": 0.3,
    }
    return events.RecordSettled(**(usual | fields))  # type: ignore[arg-type]  # fields vary


EVERY: Sequence[events.Event] = (
    settled(),
    settled(source="record"),
    settled(source="shared"),
    settled(outcome="defer", source="", reason="busy"),
    settled(outcome="dead_letter", source="", reason="permanent"),
    settled(outcome="return", source="", reason="unconfirmed"),
    events.Retried(name="job", attempt=1, error="retry"),
    events.Degraded(name="job"),
    events.Superseded(name="job", key="k", fence=1),
    events.Started(),
    events.Thawed(gap_seconds=1.0),
    events.CacheRead(name="job", source="local", count=3),
    events.CacheRead(name="job", source="shared", key="k"),
    events.CacheRead(name="job", source="miss", key="k"),
    events.CacheRead(name="~", source="loaded", key="k", load_seconds=0.1),
    events.CacheRead(name="~", source="stale", key="k"),
    events.LoadTimedOut(name="~", key="k", policy="load"),
    events.UnreadableValue(name="job", reason="garbage"),
    events.FillRefused(name="~", key="k", reason="too_large"),
    events.LocalFlushed(cause="log_opened"),
    events.LocalFlushed(cause="log_gap"),
    events.LocalFlushed(cause="clock"),
    events.LeaseAcquired(name="job", key="k", fence=1),
    events.LeaseContended(name="job", key="k", owner="o"),
    events.LeaseTakenOver(name="job", key="k", dead_owner="o"),
    events.LeaseLost(name="job", key="k"),
    events.LeaseHeld(name="job", seconds=0.4),
    events.LeaseRevoked(name="job", key="k"),
    events.Recovered(live=1, overdue=2, long=3, endless=4, pending=5),
    events.SharedFailed(operation="claim", error="TimeoutError"),
    events.StoreRead(count=2),
    events.StoreWritten(count=2),
    events.StoreFailed(operation="record", count=1),
)
