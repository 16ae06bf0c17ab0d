"""Find out which job is meant where none was named, and name what leases belong to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sekali.cli.door import operate
from sekali.cli.faults import Exit, Fault
from sekali.keys import CACHE_NAME, LOCK_NAME

if TYPE_CHECKING:
    from sekali.cli.place import Place

_SHOWN = {CACHE_NAME: "(cache)", LOCK_NAME: "(lock)"}


def job_name(place: Place, given: str | None) -> str:
    """Return the job that is meant: the one that was named, or the only one that ran lately.

    Raises:
        Fault: it is not clear which.
    """
    if given:
        return given
    known = sorted(operate(place, "jobs")["jobs"])
    if len(known) == 1:
        return str(known[0])
    seen = f"of {', '.join(known)}" if known else "(none ran here lately)"
    text = f"--job is needed: ids and keys belong to their job; name one {seen}"
    raise Fault(Exit.USAGE, text, kind="job_needed")


def shown(name: str) -> str:
    """Name for people what a lease or a value belongs to: a job, the plain cache, a lock."""
    return _SHOWN.get(name, name)
