"""What every command has in its hands: the stack, the form of the output, and who may be asked.

sekali --stack Sekali-prod status order-7        options may stand before the command
sekali status order-7 --stack Sekali-prod        or behind it
"""

from __future__ import annotations

import functools
import json
import sys
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import click

from sekali.cli import deployed, running
from sekali.cli.clients import Session
from sekali.cli.faults import Exit, Fault

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from sekali.cli.place import Place

Command = TypeVar("Command", bound="Callable[..., Any]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """What was chosen so far; None is nothing."""

    stack: str | None = None
    local: bool | None = None
    local_at: str | None = None
    worker: str | None = None
    profile: str | None = None
    region: str | None = None
    endpoint_url: str | None = None
    cache_url: str | None = None
    as_json: bool | None = None

    def over(self, earlier: Choices) -> Choices:
        """Return these choices, and the earlier ones where these are silent."""
        chosen = {one.name: getattr(self, one.name) for one in fields(self)}
        return replace(earlier, **{name: value for name, value in chosen.items() if value})


@dataclass(frozen=True)
class Here:
    """One command's surroundings."""

    choices: Choices

    @cached_property
    def place(self) -> Place:
        """Return the stack that the command acts on; looked for when it is first needed.

        Raises:
            Fault: it cannot be found.
        """
        chosen = self.choices
        if chosen.stack and (chosen.local or chosen.local_at):
            raise Fault(Exit.USAGE, "--stack and --local name two stacks; give one of them")
        if chosen.stack:
            clients = Session(
                profile=chosen.profile, region=chosen.region, endpoint_url=chosen.endpoint_url
            )
            return deployed.place(
                chosen.stack, clients, worker=chosen.worker, cache_url=chosen.cache_url
            )
        found = running.find(chosen.local_at)
        if found is None:
            text = "no stack: name a deployed one with --stack, or start `make demo ARGS=--stay`"
            raise Fault(Exit.NO_STACK, text)
        return running.place(found, worker=chosen.worker)

    @property
    def as_json(self) -> bool:
        """Tell whether the output is for a program."""
        return bool(self.choices.as_json)

    def show(self, answer: Mapping[str, object], lines: Iterable[str]) -> None:
        """Write an answer: its JSON, or its lines for people."""
        if self.as_json:
            click.echo(json.dumps(answer, ensure_ascii=False))
            return
        for line in lines:
            click.echo(line)

    def note(self, text: str) -> None:
        """Say something beside the answer."""
        click.echo(text, err=True)

    def confirm(self, question: str, *, yes: bool) -> None:
        """Ask before something is changed that cannot be changed back.

        Raises:
            Fault: the answer was no, or nobody can be asked and there was no `--yes`.
        """
        if yes:
            return
        if not sys.stdin.isatty():
            text = f"{question}: nobody can be asked here; add --yes"
            raise Fault(Exit.UNCONFIRMED, text)
        if not click.confirm(f"{question}?", err=True):
            raise Fault(Exit.UNCONFIRMED, "nothing was done")


def shared_options(command: Command) -> Command:
    """Add the options that every command has."""
    for option in reversed(
        (
            click.option("--stack", metavar="NAME", help="A deployed stack, by its name."),
            click.option(
                "--local",
                is_flag=True,
                default=None,
                help="The stack that runs on this machine (the default without --stack).",
            ),
            click.option(
                "--local-at",
                metavar="PID|PATH",
                help="Which of several that run here: its process id, or its folder.",
            ),
            click.option(
                "--worker",
                metavar="NAME",
                help="Which of several workers: its module in handlers/ (else the first).",
            ),
            click.option("--profile", metavar="NAME", help="Profile of the AWS configuration."),
            click.option("--region", metavar="NAME", help="Region of the stack."),
            click.option("--endpoint-url", metavar="URL", help="Another address of AWS."),
            click.option(
                "--cache-url",
                metavar="URL",
                help="The deployed cache through a tunnel, in place of the recovery function.",
            ),
            click.option("--json", "as_json", is_flag=True, default=None, help="Answer in JSON."),
        )
    ):
        command = option(command)
    return command


def with_here(function: Callable[..., Any]) -> Callable[..., Any]:  # Any: of any command
    """Hand a command its surroundings, made of its own options and of those before it."""

    @shared_options
    @click.pass_context
    @functools.wraps(function)
    def command(context: click.Context, /, **options: Any) -> Any:  # Any: as above
        own = Choices(**{one.name: options.pop(one.name) for one in fields(Choices)})
        earlier = context.find_object(Choices) or Choices()
        return function(Here(own.over(earlier)), **options)

    return command


yes_option = click.option("--yes", "-y", is_flag=True, help="Do not ask.")
