"""The table at the end of a run: each figure, and what it has to be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console

    from infra.local.checker import Report


def show(console: Console, report: Report) -> None:
    """Print a report."""
    table = Table(title="What was seen of the run", title_justify="left", show_header=False)
    table.add_column("figure")
    table.add_column("value", justify="right")
    table.add_column("note")
    for figure, value, note in _lines(report):
        table.add_row(figure, value, note)
    console.print(table)
    for entry in report.contended_keys:
        console.print(
            f"  asked most: {entry['key']}  {entry['messages']} messages, {entry['loads']} loads",
            highlight=False,
        )
    for problem in report.problems:
        console.print(f"  {problem}", style="red", highlight=False)
    verdict = "Each job once, each answer right." if report.sound else "NOT SOUND, see above."
    console.print(verdict, style="bold green" if report.sound else "bold red")


def _lines(report: Report) -> Iterator[tuple[str, str, str]]:
    trips, ratio, latency = report.round_trips_per_batch, report.hit_ratio, report.latency_ms
    yield "messages sent", _number(report.sent), f"{report.distinct_ids} ids that must succeed"
    yield "completed", _number(report.completed), f"of {report.distinct_ids} ids"
    yield "loads", _number(report.loads), f"of {report.distinct_keys} keys: {_parts(report)}"
    yield "served from cache", _number(report.served_from_cache), "ids whose body never started"
    yield "duplicates suppressed", _number(report.duplicates_suppressed), ""
    yield "dead-lettered", _number(report.dead_lettered), _reasons(report)
    yield "lost", _number(report.lost), "must be 0"
    yield "double effects", _number(report.double_effects), "must be 0"
    yield "wrong results", _number(report.wrong_results), "must be 0"
    yield "takeovers", _number(report.takeovers), f"{report.takeovers_seen} seen from outside"
    yield "round trips, cold batch", _number(trips.get("median")), _at_most(trips.get("max"))
    yield (
        "round trips, warm batch",
        _number(trips.get("warm_median")),
        _at_most(trips.get("warm_max")),
    )
    yield "hits, local cache", f"{ratio.get('local', 0):.1%}", ""
    yield "hits, shared cache", f"{ratio.get('shared', 0):.1%}", ""
    yield "latency, median", f"{_number(latency.get('p50'))} ms", _tail(latency)
    yield "seconds", _number(report.seconds), ""


def _at_most(number: float | None) -> str:
    return "" if number is None else f"at most {number:,}"


def _number(value: Any) -> str:  # A figure is a number, or None where nothing was measured.
    if value is None:
        return "–"
    return f"{value:,.1f}" if isinstance(value, float) and value % 1 else f"{value:,.0f}"


def _parts(report: Report) -> str:
    return ", ".join(f"{number} {why}" for why, number in report.loads_explained.items() if number)


def _reasons(report: Report) -> str:
    reasons = report.dead_lettered_by_reason.items()
    return ", ".join(f"{number} {reason}" for reason, number in reasons)


def _tail(latency: dict[str, float | None]) -> str:
    return f"95 %: {_number(latency.get('p95'))}, 99 %: {_number(latency.get('p99'))}"
