"""Write tables and plots into the pages of the docs, each under its own heading."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.simulation.scenarios import Answer


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def replace_section(page: Path, heading: str, body: str) -> None:
    """Replace what the page says between a heading of the second rank and the next one.

    Raises:
        ValueError: The page has no such heading.
    """
    text = page.read_text(encoding="utf-8")
    pattern = rf"(^## {re.escape(heading)}\n).*?(?=^## |\Z)"
    if not re.search(pattern, text, re.DOTALL | re.MULTILINE):
        raise ValueError(f"{page.name} has no heading '## {heading}'")
    replaced = re.sub(
        pattern,
        lambda found: f"{found[1]}\n{body.strip()}\n\n",
        text,
        flags=re.DOTALL | re.MULTILINE,
    )
    page.write_text(replaced.rstrip() + "\n", encoding="utf-8")


_MOST_MARKERS: Final = 40


def draw(answer: Answer, file: Path) -> None:
    """Draw an answer's curves as SVG, readable on light and dark pages.

    Matplotlib is not among the packages of the tests: `make scale` brings it.
    """
    import matplotlib as mpl

    mpl.use("svg")
    # Without these the file changes at each run.
    mpl.rcParams.update({"svg.hashsalt": "sekali", "svg.fonttype": "none", "font.size": 11})
    from matplotlib import pyplot as plt
    from matplotlib.ticker import FuncFormatter

    figure, axes = plt.subplots(figsize=(7.2, 3.6), layout="constrained")
    for line, marker in zip(answer.lines, "osD^v", strict=False):
        points = marker if len(line.x) <= _MOST_MARKERS else ""
        axes.plot(line.x, line.y, marker=points, label=line.label, linewidth=2)
    axes.set_xlabel(answer.x_label)
    axes.set_ylabel(answer.y_label)
    for axis, logarithmic in ((axes.xaxis, answer.log_x), (axes.yaxis, answer.log_y)):
        if logarithmic:
            getattr(axes, f"set_{axis.axis_name}scale")("log")
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.7g}"))
    if not answer.log_y:
        axes.set_ylim(bottom=0)
    axes.grid(visible=True, alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    figure.savefig(file, metadata={"Date": None}, facecolor="white")
    plt.close(figure)
