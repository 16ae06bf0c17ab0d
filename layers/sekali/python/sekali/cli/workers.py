"""The command that writes a second worker; it needs no stack."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sekali.cli.faults import Exit, Fault
from sekali.cli.here import with_here
from sekali.scaffold import FileExists
from sekali.scaffold import new_worker as write_worker

if TYPE_CHECKING:
    from sekali.cli.here import Here


@click.command("new-worker")
@click.argument("name")
@with_here
def new_worker(here: Here, *, name: str) -> Exit:
    """Write a worker NAME into this folder: its module in handlers/, and its test.

    Nothing that exists is written over. What is left to do is printed: the lines of cdk.json that
    deploy it, and where its permissions go.
    """
    root = Path.cwd()
    try:
        written = write_worker(name, root=root)
    except FileExists as error:
        raise Fault(Exit.NO, str(error), kind="FileExists") from error
    paths = [os.fspath(path.relative_to(root)) for path in written.files]
    told = {"files": paths, "lines": written.lines}
    here.show(told, [*(f"wrote {path}" for path in paths), "", written.lines.rstrip()])
    return Exit.DONE


COMMANDS = (new_worker,)
