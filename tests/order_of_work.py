"""Hand tests out to the processes of a parallel run: by module, and what waits to one of them.

A module's fixtures are made once that way. The scenarios of faults and alarms need stacks of their
own and mostly wait for leases and time-outs to end: one after the other, beside whatever computes,
they take less from each other's clocks than when two of them start containers at once.

Used with `--dist loadscope --no-loadscope-reorder`; the first in the alphabet are handed out first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest
from xdist.scheduler import LoadScopeScheduling

if TYPE_CHECKING:
    from xdist.remote import Producer

_WAITING: Final = ("tests/alarms/", "tests/chaos/")


class ByModule(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """Gives each process a module at a time, and one of them all that waits."""

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)


def scope_of(nodeid: str) -> str:
    """Return what a test is handed out with."""
    return "waiting" if nodeid.startswith(_WAITING) else nodeid.partition("::")[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByModule | None:
    """Replace xdist's own grouping where grouping is asked for."""
    return ByModule(config, log) if config.getoption("dist") == "loadscope" else None
