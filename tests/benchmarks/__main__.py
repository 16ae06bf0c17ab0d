"""Run the benchmarks, show a table, and fail where a budget is not kept."""

from __future__ import annotations

import argparse
import json
import os
import pkgutil
import platform
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

import tests.benchmarks as package
from tests.benchmarks.harness import COLUMNS, REGISTERED
from tests.benchmarks.report import write_into

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.benchmarks.harness import Row

DOCS = Path(__file__).parents[2] / "docs" / "performance.md"


def main() -> int:
    """Run what was asked for."""
    arguments = _arguments()
    _forget_environment()
    for module in pkgutil.iter_modules(package.__path__):
        if module.name.startswith("bench_"):
            import_module(f"{package.__name__}.{module.name}")
    names = [name for name in REGISTERED if _is_wanted(name, arguments.only)]
    if arguments.list or not names:
        print("\n".join(REGISTERED))
        return 0 if arguments.list else 2

    sections: dict[str, list[Row]] = {}
    for name in names:
        began = time.monotonic()
        print(f"{name} …", file=sys.stderr, flush=True)
        sections[name] = list(REGISTERED[name]())
        print(f"{name}: {time.monotonic() - began:.1f} s", file=sys.stderr, flush=True)
    rows = [row for section in sections.values() for row in section]

    _show(rows)
    if arguments.json is not None:
        report = {
            "machine": _machine(),
            "rows": [row.as_json() for row in rows],
            "details": [row.details() for row in rows],
        }
        arguments.json.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n")
    if arguments.write_docs:
        write_into(DOCS, sections, machine=_machine())
    missed = [row.name for row in rows if row.within is False]
    for name in missed:
        print(f"over its budget: {name}", file=sys.stderr)
    return 1 if missed else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("--only", action="append", help="a part of a benchmark's name; repeatable")
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    parser.add_argument(
        "--write-docs", action="store_true", help="replace what was run in docs/performance.md"
    )
    parser.add_argument("--list", action="store_true", help="list the names")
    return parser.parse_args()


def _forget_environment() -> None:
    """Keep the developer's AWS account and Sekali's own settings out of it."""
    for name in [name for name in os.environ if name.startswith(("AWS_", "SEKALI_", "POWERTOOLS"))]:
        del os.environ[name]
    os.environ.update(
        AWS_ACCESS_KEY_ID="bench",
        AWS_SECRET_ACCESS_KEY="bench",
        AWS_DEFAULT_REGION="eu-west-1",
        AWS_CONFIG_FILE=os.devnull,
        AWS_SHARED_CREDENTIALS_FILE=os.devnull,
        AWS_EC2_METADATA_DISABLED="true",
    )


def _is_wanted(name: str, only: Sequence[str] | None) -> bool:
    return only is None or any(part in name for part in only)


def _show(rows: Sequence[Row]) -> None:
    table = Table(*COLUMNS)
    for row in rows:
        style = "red" if row.within is False else None
        table.add_row(*row.cells(), style=style)
    Console().print(table)


def _machine() -> str:
    """Say what the numbers were taken on."""
    load = os.getloadavg()[0]
    cores = os.cpu_count()
    return (
        f"{cores} cores ({platform.machine()}), Python {platform.python_version()}, load {load:.1f}"
    )


if __name__ == "__main__":
    sys.exit(main())
