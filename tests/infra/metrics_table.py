"""The table of metrics in docs/telemetry.md, as code and template have it.

`python -m tests.infra.metrics_table` writes it into the page.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from sekali.telemetry.measures import METRICS
from tests.infra.monitored import Monitored
from tests.infra.synthesized import ROOT, synthesize

if TYPE_CHECKING:
    from collections.abc import Iterable

PAGE = ROOT / "docs" / "telemetry.md"
BEGIN, END = "## Metrics\n\n", "\n## Dashboards\n"
COLUMNS = ("metric", "unit", "dimensions", "when", "widgets", "alarms")
DIMENSIONS = {"job": "service; service, job", "service": "service"}


def table(monitored: Monitored, stack_name: str) -> str:
    """Return the table: one row for each metric of the library."""
    rows = [COLUMNS, ("---",) * len(COLUMNS)]
    rows += [
        (
            f"`{metric.name}`",
            metric.unit,
            DIMENSIONS[metric.of],
            metric.when,
            _listed(
                f"{one.dashboard.removeprefix(f'{stack_name}-')}: {one.title}"
                for one in monitored.widgets_of(metric.name)
            ),
            _listed(
                f"`{one.name.removeprefix(f'{stack_name}-')}`"
                for one in monitored.alarms_of(metric.name)
            ),
        )
        for metric in METRICS.values()
    ]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def written(page: str) -> str:
    """Return the table that a page holds."""
    return page.partition(BEGIN)[2].partition(END)[0]


def main() -> None:
    """Replace the table in the page."""
    with tempfile.TemporaryDirectory() as folder:
        monitored = Monitored.of(synthesize(Path(folder)))
    page = PAGE.read_text(encoding="utf-8")
    before, after = page.partition(BEGIN)[0], page.partition(END)[2]
    PAGE.write_text(before + BEGIN + table(monitored, "Sekali-dev") + END + after, "utf-8")
    sys.stdout.write(f"{len(METRICS)} metrics in {PAGE.relative_to(ROOT)}\n")


def _listed(texts: Iterable[str]) -> str:
    return "; ".join(dict.fromkeys(texts)) or "–"


if __name__ == "__main__":
    main()
