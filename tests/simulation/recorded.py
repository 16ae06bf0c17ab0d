"""Keep real runs in a file, so that the model can be held against them again."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.simulation.check import Runs
from tests.simulation.inputs import Costs

if TYPE_CHECKING:
    from collections.abc import Iterable

RECORDED: Final = Path(__file__).with_name("runs.json")
"""Runs of the machine that docs/scale.md names."""
_DIGITS: Final = 4


def save(runs: Iterable[Runs], file: Path) -> None:
    """Write runs; those of other loads that the file has already stay."""
    kept = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    for one in runs:
        kept[one.load] = {
            "machine": one.machine,
            "costs": _rounded(asdict(one.costs)),
            "figures": [_rounded(dict(figures)) for figures in one.figures],
        }
    file.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


def read(file: Path = RECORDED) -> list[Runs]:
    """Return the runs of each load.

    Raises:
        FileNotFoundError: There is none.
    """
    found = json.loads(file.read_text(encoding="utf-8"))
    return [
        Runs(
            load=load,
            machine=kept["machine"],
            costs=Costs(**kept["costs"]),
            figures=kept["figures"],
        )
        for load, kept in found.items()
    ]


# Any: what JSON takes; numbers of cores and bodies stay whole.
def _rounded(values: dict[str, Any]) -> dict[str, Any]:
    return {
        name: float(f"{value:.{_DIGITS}g}") if isinstance(value, float) else value
        for name, value in values.items()
    }
