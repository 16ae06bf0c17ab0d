"""The commands about dead letters: stats, peek, redrive, purge, restore."""

from __future__ import annotations

import functools
import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from sekali.cli import move_task
from sekali.cli.faults import Exit, Fault
from sekali.cli.here import with_here, yes_option
from sekali.cli.letters import Filter, Letter, grouped, restored
from sekali.cli.output import cut, duration, table
from sekali.cli.shelf import HOLD_SECONDS, Shelf
from sekali.outgoing import MAX_ENTRIES, Outgoing, entry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sekali.cli.here import Here
    from sekali.cli.place import Json

MOST_LOOKED_AT: Final = 100_000
"""A queue hands out 120,000 messages that are not deleted, and then no more."""
_SHOWN_ERROR: Final = 60
_COUNTS: Final = {
    "visible": "ApproximateNumberOfMessages",
    "in_flight": "ApproximateNumberOfMessagesNotVisible",
    "delayed": "ApproximateNumberOfMessagesDelayed",
}


def filters(function: Callable[..., Any]) -> Callable[..., Any]:  # Any: of any command
    """Add the options that choose letters, and hand them over as one filter."""

    @click.option("--reason", "reasons", multiple=True, help="With this reason; may be repeated.")
    @click.option("--job", metavar="NAME", help="Of this job.")
    @click.option("--id", "job_id", help="Of this id.")
    @click.option("--error", metavar="TEXT", help="Whose error contains this.")
    @click.option(
        "--hold",
        type=click.IntRange(1, 43_200),
        default=HOLD_SECONDS,
        metavar="SECONDS",
        help="How long letters are hidden from others while they are looked at.",
    )
    @functools.wraps(function)
    def command(
        *arguments: Any,  # Any: as above
        reasons: tuple[str, ...],
        job: str | None,
        job_id: str | None,
        error: str | None,
        **options: Any,  # Any: as above
    ) -> Any:  # Any: as above
        chosen = Filter(reasons=reasons, job=job, id=job_id, error=error)
        return function(*arguments, chosen=chosen, **options)

    return command


limit_option = click.option(
    "--limit", type=click.IntRange(min=1), help="At most so many letters; else all."
)
dry_run_option = click.option("--dry-run", is_flag=True, help="Only show what would be done.")


@click.group()
def dlq() -> None:
    """Look after dead letters: what could not be done, each with its reason."""


@dlq.command()
@filters
@limit_option
@with_here
def stats(here: Here, *, chosen: Filter, hold: int, limit: int | None) -> None:
    """Count dead letters by reason and job."""
    counts = _counts(here)
    shelf = _shelf(here, hold)
    found = _seen(shelf, chosen, limit)
    told = {**counts, "looked_at_all": shelf.complete, "groups": grouped(found)}
    here.show(told, _stats_lines(told))


@dlq.command()
@filters
@click.option("--limit", type=click.IntRange(min=1), default=10, help="At most so many letters.")
@click.option("--body", is_flag=True, help="Show the messages too.")
@with_here
def peek(here: Here, *, chosen: Filter, hold: int, limit: int, body: bool) -> Exit:
    """Show dead letters, and leave them where they are."""
    found = _seen(_shelf(here, hold), chosen, limit)
    told = {"letters": [letter.as_json() for letter in found]}
    here.show(told, _letter_lines(found, bodies=body))
    return Exit.DONE if found else Exit.UNKNOWN


@dlq.command()
@filters
@limit_option
@click.option("--rate", type=click.FloatRange(min=0, min_open=True), help="Letters per second.")
@click.option("--by-copy", is_flag=True, help="Do not use the queue's own move task.")
@dry_run_option
@yes_option
@with_here
def redrive(
    here: Here,
    *,
    chosen: Filter,
    hold: int,
    limit: int | None,
    rate: float | None,
    by_copy: bool,
    dry_run: bool,
    yes: bool,
) -> Exit:
    """Send dead letters back to their queue, where their jobs run again under their ids.

    Without a filter the queue's own move task does it, where there is one; else each letter is
    copied, and deleted when its copy is acknowledged. A kill in between leaves a duplicate, which
    its id makes harmless, and never loses a letter.
    """
    if dry_run:
        return _would(here, chosen, hold, limit, "redrive")
    place = here.place
    waiting = _counts(here)["visible"]
    here.confirm(f"Redrive dead letters ({waiting} wait) to {place.queue_url}", yes=yes)
    whole = chosen.everything and limit is None and not by_copy
    if whole and rate is not None and rate > move_task.LARGEST_RATE:
        raise click.UsageError(f"a move task takes a rate of at most {move_task.LARGEST_RATE}")
    handle = None
    if whole:
        handle = move_task.start(
            place.clients("sqs"),
            source=place.dead_letter_queue_url,
            target=place.queue_url,
            rate=rate,
        )
    return _by_copy(here, chosen, hold, limit, rate) if handle is None else _by_task(here, handle)


@dlq.command()
@filters
@limit_option
@click.option(
    "--archive",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write each letter there before it is deleted; `restore` brings it back.",
)
@dry_run_option
@yes_option
@with_here
def purge(
    here: Here,
    *,
    chosen: Filter,
    hold: int,
    limit: int | None,
    archive: Path | None,
    dry_run: bool,
    yes: bool,
) -> Exit:
    """Delete dead letters, for good: their messages are gone. What comes meanwhile stays."""
    if dry_run:
        return _would(here, chosen, hold, limit, "purge")
    waiting = _counts(here)["visible"]
    here.confirm(f"Delete dead letters of {here.place.name} ({waiting} wait) for good", yes=yes)
    shelf = _shelf(here, hold)
    gone: list[Letter] = []
    try:
        for letters in _matching(shelf, chosen, limit):
            if archive is not None:
                _write_down(archive, letters)
            gone += shelf.remove(letters)
    finally:
        shelf.put_back()
    told = {"purged": len(gone), "groups": grouped(gone), "archive": archive and str(archive)}
    here.show(told, [f"{len(gone)} deleted", *_group_lines(grouped(gone))])
    return Exit.DONE


@dlq.command()
@click.argument("archive", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@with_here
def restore(here: Here, *, archive: Path) -> Exit:
    """Put the letters of an ARCHIVE that `purge` wrote back among the dead letters."""
    shelf = _shelf(here, HOLD_SECONDS)
    fifo = here.place.settings.fifo
    entries = []
    for number, line in enumerate(archive.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            told = json.loads(line)
            body, attributes = restored(told)
            entries.append(
                entry(
                    Outgoing(body, attributes),
                    entry_id=str(number),
                    group=told["system"].get("MessageGroupId"),
                    deduplication=told["message_id"] if fifo else None,
                )
            )
        except (KeyError, TypeError, ValueError) as error:
            raise Fault(Exit.USAGE, f"line {number} of {archive} is no letter: {error}") from error
    # One by one: together they may be more than a batch may have.
    took = sum(shelf.add([one]) for one in entries)
    here.show({"restored": took, "of": len(entries)}, [f"{took} of {len(entries)} restored"])
    return Exit.DONE if took == len(entries) else Exit.NO


def _shelf(here: Here, hold_seconds: int) -> Shelf:
    place = here.place
    return Shelf(place.clients("sqs"), place.dead_letter_queue_url, hold_seconds=hold_seconds)


def _matching(
    shelf: Shelf, chosen: Filter, limit: int | None, *, per_look: int = MAX_ENTRIES
) -> Iterator[list[Letter]]:
    """Yield the letters that are meant, as they are handed out, up to `limit` of them."""
    left = MOST_LOOKED_AT if limit is None else limit
    for letters in shelf.look(most=MOST_LOOKED_AT, per_look=per_look):
        meant = [letter for letter in letters if chosen.matches(letter)][:left]
        left -= len(meant)
        if meant:
            yield meant
        if left == 0:
            return


def _seen(shelf: Shelf, chosen: Filter, limit: int | None) -> list[Letter]:
    """Return the letters that are meant, and put everything back."""
    try:
        return [letter for letters in _matching(shelf, chosen, limit) for letter in letters]
    finally:
        shelf.put_back()


def _counts(here: Here) -> Json:
    place = here.place
    answer = place.clients("sqs").get_queue_attributes(
        QueueUrl=place.dead_letter_queue_url, AttributeNames=list(_COUNTS.values())
    )
    return {name: int(answer["Attributes"][asked]) for name, asked in _COUNTS.items()}


def _would(here: Here, chosen: Filter, hold: int, limit: int | None, what: str) -> Exit:
    found = _seen(_shelf(here, hold), chosen, limit)
    groups = grouped(found)
    told = {"dry_run": True, what: len(found), "groups": groups}
    here.show(told, [f"would {what} {len(found)}", *_group_lines(groups)])
    return Exit.DONE


def _by_copy(here: Here, chosen: Filter, hold: int, limit: int | None, rate: float | None) -> Exit:
    shelf = _shelf(here, hold)
    moved: list[Letter] = []
    stayed: list[Letter] = []
    # A slow pace takes few letters at a time, so that none is held for longer than its hold.
    per_look = MAX_ENTRIES if rate is None else max(1, min(MAX_ENTRIES, int(rate)))
    try:
        for letters in _matching(shelf, chosen, limit, per_look=per_look):
            done, left = shelf.move(letters, to=here.place.queue_url, rate=rate)
            moved, stayed = moved + done, stayed + left
    finally:
        shelf.put_back()
    groups = grouped(moved)
    told = {"by": "copy", "redriven": len(moved), "stayed": len(stayed), "groups": groups}
    lines = [f"{len(moved)} redriven", *_group_lines(groups)]
    if stayed:
        lines.append(f"{len(stayed)} stay: their copy was not taken, or they were not deleted")
    here.show(told, lines)
    return Exit.NO if stayed else Exit.DONE


def _by_task(here: Here, handle: str) -> Exit:
    place = here.place
    ended = move_task.follow(
        place.clients("sqs"),
        source=place.dead_letter_queue_url,
        handle=handle,
        tell=lambda moved, whole: here.note(f"{moved} of {whole} moved"),
    )
    told = {
        "by": "task",
        "redriven": ended.moved,
        "stayed": ended.to_move - ended.moved,
        "task_status": ended.status,
        "task_reason": ended.reason,
    }
    here.show(told, [f"{ended.moved} redriven by the queue's own task: {ended.status.lower()}"])
    return Exit.DONE if ended.status == "COMPLETED" else Exit.NO


def _write_down(archive: Path, letters: Sequence[Letter]) -> None:
    """Append letters to the archive; they are on the disk when this returns."""
    with archive.open("a", encoding="utf-8") as file:
        for letter in letters:
            file.write(json.dumps(letter.as_json(), ensure_ascii=False) + "\n")
        file.flush()
        os.fsync(file.fileno())


def _stats_lines(told: Json) -> Iterator[str]:
    yield f"{told['visible']} visible, {told['in_flight']} in flight, {told['delayed']} delayed"
    yield from _group_lines(told["groups"])
    if not told["looked_at_all"]:
        yield "there are more; --limit says how many are looked at"


def _group_lines(groups: Sequence[Json]) -> Iterator[str]:
    now = time.time()
    rows = [
        (
            group["reason"],
            group["job"] or "?",
            group["count"],
            duration(max(now - group["oldest"], 0.0)),
            ", ".join(group["error_types"]),
        )
        for group in groups
    ]
    yield from table(("reason", "job", "count", "oldest", "errors"), rows)


def _letter_lines(letters: Sequence[Letter], *, bodies: bool) -> Iterator[str]:
    now = time.time()
    rows = [
        (
            letter.reason,
            letter.job or "?",
            letter.id or "?",
            duration(max(now - letter.died_at, 0.0)),
            letter.attempts or "",
            cut(": ".join(filter(None, (letter.error_type, letter.error))), _SHOWN_ERROR),
        )
        for letter in letters
    ]
    lines = list(table(("reason", "job", "id", "age", "attempts", "error"), rows))
    yield from lines[:1]
    for line, letter in zip(lines[1:], letters, strict=True):
        yield line
        if bodies:
            yield f"  {letter.body}"
    if not letters:
        yield "no dead letters"


COMMANDS: Final = (dlq,)
