"""The command line itself: its commands, and how it ends."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import get_completion_class

from sekali import __version__
from sekali.cli import dlq, doctor, jobs, keys, workers
from sekali.cli.faults import Exit, Fault, translated
from sekali.cli.here import Choices, shared_options

if TYPE_CHECKING:
    from collections.abc import Sequence

NAME = "sekali"
_COMPLETE = "_SEKALI_COMPLETE"


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name=NAME)
@shared_options
@click.pass_context
def program(context: click.Context, /, **options: Any) -> None:  # Any: of all options
    """Send jobs, see what became of them, and look after leases, cache and dead letters.

    It acts on the stack that runs on this machine, or with --stack on a deployed one.
    """
    context.obj = Choices(**{one.name: options[one.name] for one in fields(Choices)})
    if os.environ.get("NO_COLOR"):
        context.color = False


@program.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print what makes SHELL complete this command: `eval "$(sekali completion bash)"`."""
    kind = get_completion_class(shell)
    if kind is not None:
        click.echo(kind(program, {}, NAME, _COMPLETE).source())


for command in (*jobs.COMMANDS, *keys.COMMANDS, *dlq.COMMANDS, *doctor.COMMANDS, *workers.COMMANDS):
    program.add_command(command)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status (see `faults`)."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        answered = program.main(
            given, prog_name=NAME, complete_var=_COMPLETE, standalone_mode=False
        )
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read has read enough; what Python still holds must not be written at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return int(Exit.DONE)
    except (click.Abort, KeyboardInterrupt):
        click.echo("Interrupted.", err=True)
        return int(Exit.INTERRUPTED)
    except click.ClickException as error:
        return _told(error, as_json="--json" in given)
    except Exception as error:
        fault = translated(error)
        if fault is None:
            raise
        return _told(fault, as_json="--json" in given)
    return int(answered or Exit.DONE)


def _told(error: click.ClickException, *, as_json: bool) -> int:
    status, kind = error.exit_code, type(error).__name__
    if isinstance(error, Fault):
        status, kind = int(error.status), error.kind
    if as_json:
        told = {"kind": kind, "text": error.format_message(), "status": status}
        click.echo(json.dumps({"error": told}, ensure_ascii=False), err=True)
    else:
        error.show()
    return status
