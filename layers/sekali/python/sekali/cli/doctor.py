"""The command that examines a stack and says of each thing that is wrong what to do about it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Final

import click

from sekali.cli import checks_cache, checks_functions, checks_metrics, checks_queues, checks_storage
from sekali.cli.examining import Examined, Finding
from sekali.cli.faults import Exit
from sekali.cli.here import with_here
from sekali.cli.output import word

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sekali.cli.here import Here
    from sekali.cli.place import Place

CHECKS: Final[tuple[Callable[[Examined], Iterator[Finding]], ...]] = (
    checks_functions.settings,
    checks_functions.mapping,
    checks_functions.partial_batch,
    checks_functions.concurrency,
    checks_functions.memory,
    checks_functions.rights,
    checks_queues.queues_exist,
    checks_queues.visibility,
    checks_queues.retention,
    checks_queues.redrive,
    checks_queues.dead_letters,
    checks_queues.message_size,
    checks_storage.table,
    checks_storage.time_to_live,
    checks_storage.bucket,
    checks_cache.cache,
    checks_cache.keeping,
    checks_cache.leases,
    checks_metrics.dimensions,
    checks_metrics.alarms,
)


@click.command()
@with_here
def doctor(here: Here) -> Exit:
    """Examine a stack: settings, rights, queues, storage, cache, metrics, clocks.

    Each finding has its remedy. The status is 1 where something is wrong; a warning is none.
    """
    findings = list(examine(here.place))
    wrong = sum(one.state == "wrong" for one in findings)
    told = {
        "stack": here.place.name,
        "checks": len(CHECKS),
        "wrong": wrong,
        "findings": [asdict(one) for one in findings],
    }
    here.show(told, _lines(findings))
    return Exit.NO if wrong else Exit.DONE


def examine(place: Place) -> Iterator[Finding]:
    """Run every check; what is in order is not told of."""
    stack = Examined(place)
    for check in CHECKS:
        yield from check(stack)


def _lines(findings: Sequence[Finding]) -> Iterator[str]:
    for one in findings:
        yield f"{word(one.state)}  {one.check}: {one.found}"
        if one.remedy:
            yield f"       do: {one.remedy}"
    wrong = sum(one.state == "wrong" for one in findings)
    yield f"{len(CHECKS)} checks, {wrong} wrong"


COMMANDS: Final = (doctor,)
