"""The command line for producers and operators: `sekali --help`.

    program ── jobs, keys, letters, doctor ──> here ──> place <── running | deployed
                          └──> door ──> the recovery function, or its code in this process

Each command finds its stack (`here`), asks the services with the caller's own rights, and whatever
only somebody inside the cache's network can say, through the `door`. Needs the package `click`,
which no function does: install `sekali[cli]`.
"""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command line of this process; the entry point `sekali`."""
    try:
        from sekali.cli.program import main as run
    except ModuleNotFoundError as error:
        if error.name != "click":
            raise
        sys.stderr.write("The command line needs click: pip install 'sekali[cli]'\n")
        return 2
    return run()
