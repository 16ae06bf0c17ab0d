"""Draw the timelines of the concept pages: `make pictures` writes an SVG for each of them.

A timeline has lanes (who), bars (for how long), marks (at which moment) and arrows (to whom). Times
are columns, not seconds: what matters is the order. Colours follow the reader's light or dark mode.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER: Final = Path(__file__).parent
WIDTH: Final = 760
LEFT: Final = 96
COLUMNS: Final = 12
LANE_HEIGHT: Final = 62
TOP: Final = 34
BAR_HEIGHT: Final = 24

STYLE: Final = """
text { font: 12px system-ui, sans-serif; fill: #1f2430 }
.who { font-weight: 600 } .time, .said { fill: #5b6472 } .line { stroke: #c9ced6 }
.arrow { stroke: #5b6472; fill: none } .head { fill: #5b6472 }
.work { fill: #cfe3ff; stroke: #3f78c9 } .kept { fill: #d3f0dc; stroke: #2f8f52 }
.gone { fill: #ececf0; stroke: #9aa1ac; stroke-dasharray: 4 3 }
.no { fill: #ffdcd8; stroke: #c4473a }
@media (prefers-color-scheme: dark) {
text { fill: #e4e7ec } .time, .said { fill: #9aa4b2 } .line { stroke: #3a4150 }
.arrow { stroke: #9aa4b2 } .head { fill: #9aa4b2 }
.work { fill: #1f3b63; stroke: #6ea4ee } .kept { fill: #1d4a2e; stroke: #5fc585 }
.gone { fill: #2a2f3a; stroke: #7a8290 } .no { fill: #5a2420; stroke: #ee8076 } }
"""

Kind = Literal["work", "kept", "gone", "no"]


@dataclass(frozen=True, slots=True)
class Bar:
    """What somebody does from one column to another."""

    who: str
    start: float
    end: float
    text: str
    kind: Kind = "work"


@dataclass(frozen=True, slots=True)
class Arrow:
    """What one tells another at a moment."""

    source: str
    target: str
    at: float
    text: str


@dataclass(frozen=True, slots=True)
class Timeline:
    """One picture: its file's name, what it says to those who cannot see it, and its parts."""

    name: str
    says: str
    lanes: tuple[str, ...]
    bars: tuple[Bar, ...]
    arrows: tuple[Arrow, ...] = ()
    times: tuple[tuple[float, str], ...] = ()


PICTURES: Final = (
    Timeline(
        "takeover",
        "A claims key k with fence 7 and is frozen. Its lease ends, B claims with fence 8, finishes"
        " and stores its value. A thaws; what it writes is refused.",
        ("A", "cache", "B"),
        (
            Bar("A", 0, 2, "works"),
            Bar("A", 2, 9, "frozen", "gone"),
            Bar("A", 9, 11.9, "finishes: refused", "no"),
            Bar("cache", 0.2, 4.8, "lease of A, fence 7"),
            Bar("cache", 5.2, 7.2, "lease of B, 8"),
            Bar("cache", 7.2, 11.9, "value of k, fence 8", "kept"),
            Bar("B", 5, 7.2, "works"),
        ),
        (
            Arrow("B", "cache", 5.2, "takes over"),
            Arrow("B", "cache", 7.2, "finish"),
            Arrow("A", "cache", 9.4, "7 is older than 8"),
        ),
        ((0, "t=0"), (2, "1"), (4.8, "13"), (5.2, ""), (7.2, "15"), (9, "60")),
    ),
    Timeline(
        "batch",
        "A batch waits for the cache twice: once for all claims, once for all finishes. Between"
        " them the bodies run and the outcomes are written to the table.",
        ("worker", "cache", "table"),
        (
            Bar("worker", 0, 1.3, "decode"),
            Bar("worker", 3.2, 6.6, "bodies run"),
            Bar("worker", 10.4, 11.9, "settle"),
            Bar("cache", 1.3, 3.2, "every claim", "kept"),
            Bar("cache", 8.6, 10.4, "every finish", "kept"),
            Bar("cache", 4.4, 5.6, "renew", "work"),
            Bar("table", 6.6, 8.6, "one write each", "kept"),
        ),
        (
            Arrow("worker", "cache", 1.3, "one pipeline"),
            Arrow("worker", "table", 6.6, ""),
            Arrow("worker", "cache", 8.6, "one pipeline"),
        ),
    ),
    Timeline(
        "record",
        "A runs the job and is frozen before its write. B takes over and records its result. When A"
        " writes its own, the condition of the write refuses it and answers with B's.",
        ("A", "table", "B"),
        (
            Bar("A", 0, 2.4, "runs the job"),
            Bar("A", 2.4, 8, "frozen", "gone"),
            Bar("A", 8.3, 11.9, "goes on with B's result", "kept"),
            Bar("table", 0, 5.8, "no item", "gone"),
            Bar("table", 5.8, 11.9, "B's result, final", "kept"),
            Bar("B", 3.4, 5.8, "runs it too"),
        ),
        (
            Arrow("B", "table", 5.8, "write: accepted"),
            Arrow("A", "table", 8.2, "write: refused"),
        ),
        ((0, "t=0"), (2.4, ""), (5.8, "20"), (8, "60")),
    ),
    Timeline(
        "invalidation",
        "A load begins, and while it runs its key is invalidated. The late fill is refused in both"
        " tiers; the caller still gets its value, and the next caller loads afresh.",
        ("caller", "cache", "writer"),
        (
            Bar("caller", 0, 5.6, "loads the old row"),
            Bar("caller", 8, 11.9, "the next one loads"),
            Bar("cache", 0.2, 3.4, "lease, fence 7"),
            Bar("cache", 3.4, 8, "tombstone for 7", "no"),
            Bar("cache", 8, 11.9, "lease, fence 8"),
            Bar("writer", 1, 3.4, "changes the row"),
        ),
        (
            Arrow("writer", "cache", 3.4, "invalidate"),
            Arrow("caller", "cache", 5.6, "fill: refused"),
        ),
    ),
    Timeline(
        "degraded",
        "The cache stops answering. After its time-outs a breaker answers at once, table claims"
        " coordinate, and one probe a second notices when the cache is back.",
        ("worker", "breaker", "cache", "table"),
        (
            Bar("worker", 0, 2.6, "claims in cache"),
            Bar("worker", 4, 9, "claims in the table"),
            Bar("worker", 9, 11.9, "claims in cache"),
            Bar("breaker", 0, 4, "closed", "kept"),
            Bar("breaker", 4, 9, "open: answers at once", "no"),
            Bar("breaker", 9, 11.9, "closed", "kept"),
            Bar("cache", 0, 2.6, "answers", "kept"),
            Bar("cache", 2.6, 8.2, "away", "gone"),
            Bar("cache", 8.2, 11.9, "answers", "kept"),
            Bar("table", 4, 9, "claims of ids", "work"),
        ),
        (Arrow("breaker", "cache", 5.8, "probe"), Arrow("breaker", "cache", 9, "probe")),
    ),
    Timeline(
        "deferral",
        "A job that is busy elsewhere is not returned to the queue. A delayed copy is sent, and"
        " only when the queue has acknowledged it the original is deleted.",
        ("holder", "message", "copy", "worker"),
        (
            Bar("holder", 0, 6.4, "works on the same key"),
            Bar("message", 0, 5, "in flight"),
            Bar("copy", 3.2, 8.4, "delayed: same id, no attempt spent", "gone"),
            Bar("worker", 2, 5, "claim: busy"),
            Bar("worker", 8.4, 11.9, "claim: served", "kept"),
        ),
        (
            Arrow("worker", "copy", 3.2, "send"),
            Arrow("worker", "message", 5, "then delete"),
            Arrow("copy", "worker", 8.4, ""),
        ),
    ),
    Timeline(
        "message",
        "A sender's message waits in the queue until a batch takes it. It is deleted when the"
        " table shows its id settled; a second message with that id gets the recorded result.",
        ("sender", "queue", "worker", "table"),
        (
            Bar("sender", 0, 1.2, "sends"),
            Bar("sender", 5.8, 7, "once more"),
            Bar("queue", 1.2, 5.6, "message"),
            Bar("queue", 7, 9.6, "the same id"),
            Bar("worker", 2.6, 5.6, "does the job"),
            Bar("worker", 8.4, 9.6, "done", "kept"),
            Bar("table", 4.4, 11.9, "the id's outcome, final", "kept"),
        ),
        (
            Arrow("sender", "queue", 1.2, ""),
            Arrow("worker", "table", 4.4, "record"),
            Arrow("worker", "queue", 5.6, "delete"),
            Arrow("sender", "queue", 7, ""),
            Arrow("worker", "queue", 9.6, "delete"),
        ),
    ),
)


def draw(picture: Timeline) -> str:
    """Return the picture as SVG."""
    height = TOP + LANE_HEIGHT * len(picture.lanes) + 6
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        f"<title>{escape(picture.says)}</title>",
        f"<style>{STYLE}</style>",
        *_lanes(picture),
        *(line for bar in picture.bars for line in _bar(picture, bar)),
        *(line for arrow in picture.arrows for line in _arrow(picture, arrow)),
        *(
            f'<text class="time" x="{place(at):.0f}" y="18">{escape(text)}</text>'
            for at, text in picture.times
        ),
        "</svg>\n",
    ]
    return "\n".join(lines)


def main() -> None:
    """Write every picture beside this file."""
    for picture in PICTURES:
        (FOLDER / f"{picture.name}.svg").write_text(draw(picture), encoding="utf-8")


def place(column: float) -> float:
    """Return where a column begins."""
    return LEFT + column * (WIDTH - LEFT - 10) / COLUMNS


def _y(picture: Timeline, who: str) -> float:
    return TOP + LANE_HEIGHT * picture.lanes.index(who) + LANE_HEIGHT / 2


def _lanes(picture: Timeline) -> Iterator[str]:
    for who in picture.lanes:
        y = _y(picture, who)
        yield f'<text class="who" x="8" y="{y + 4:.0f}">{escape(who)}</text>'
        yield f'<line class="line" x1="{LEFT}" x2="{WIDTH - 10}" y1="{y:.0f}" y2="{y:.0f}"/>'


def _bar(picture: Timeline, bar: Bar) -> Iterator[str]:
    x, y = place(bar.start), _y(picture, bar.who) - BAR_HEIGHT / 2
    width = place(bar.end) - x
    yield (
        f'<rect class="{bar.kind}" x="{x:.0f}" y="{y:.0f}" width="{width:.0f}"'
        f' height="{BAR_HEIGHT}" rx="4"/>'
    )
    yield (
        f'<text x="{x + width / 2:.0f}" y="{y + 16:.0f}" text-anchor="middle">'
        f"{escape(bar.text)}</text>"
    )


def _arrow(picture: Timeline, arrow: Arrow) -> Iterator[str]:
    x = place(arrow.at)
    start, end = _y(picture, arrow.source), _y(picture, arrow.target)
    down = 1 if end > start else -1
    start, end = start + down * BAR_HEIGHT / 2, end - down * BAR_HEIGHT / 2
    tip = f"{x:.0f},{end:.0f} {x - 4:.0f},{end - down * 8:.0f} {x + 4:.0f},{end - down * 8:.0f}"
    yield f'<line class="arrow" x1="{x:.0f}" x2="{x:.0f}" y1="{start:.0f}" y2="{end:.0f}"/>'
    yield f'<polygon class="head" points="{tip}"/>'
    middle = (start + end) / 2 + 4
    yield f'<text class="said" x="{x + 8:.0f}" y="{middle:.0f}">{escape(arrow.text)}</text>'


if __name__ == "__main__":
    main()
