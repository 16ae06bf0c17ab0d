"""Read a runbook, and follow it: its sections, their commands, queries and deployments."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infra.config import read
from tests.operations import insights

if TYPE_CHECKING:
    from collections.abc import Mapping

    from infra.local.stack import LocalStack
    from tests.cli.conftest import Done, Sekali
    from tests.operations.insights import Row

FOLDER = Path(__file__).parents[2] / "docs" / "operations"
SECTIONS = ("How it looks", "Confirm", "Stop the bleeding", "Fix", "Verify")
_BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)
_PLACEHOLDER = re.compile(r"\b(KEY|JOB|ID|PAYLOAD)\b")


class StepUnknown(ValueError):
    """A page says something that nobody here can follow."""


@dataclass(frozen=True)
class Page:
    """One runbook."""

    name: str
    text: str

    @property
    def sections(self) -> dict[str, str]:
        """Return the texts of the sections by their titles, in their order."""
        parts = re.split(r"^## (.+)$", self.text, flags=re.MULTILINE)
        return dict(zip(parts[1::2], parts[2::2], strict=True))

    @property
    def widgets(self) -> set[str]:
        """Return the titles that the page names, which stand in bold letters."""
        return set(re.findall(r"\*\*([^*]+)\*\*", self.text.replace("\n", " ")))


def page(name: str) -> Page:
    """Read the runbook of an incident."""
    return Page(name, (FOLDER / f"{name}.md").read_text(encoding="utf-8"))


@dataclass
class Followed:
    """What a section's commands and queries answered, in their order."""

    commands: list[Done] = field(default_factory=list)
    queries: list[list[Row]] = field(default_factory=list)
    deployments: int = 0

    @property
    def statuses(self) -> list[int]:
        """Return the exit statuses of the commands."""
        return [done.status for done in self.commands]


class Reader:
    """Follow one page on a running stack, as somebody on call would."""

    def __init__(self, name: str, *, sekali: Sekali, stack: LocalStack, **said: str) -> None:
        """Take the page of an incident, and what stands for its placeholders."""
        self._page = page(name)
        self._sekali = sekali
        self._stack = stack
        self._said: Mapping[str, str] = {one.upper(): text for one, text in said.items()}
        self._seen = len(stack.logs.records())

    def follow(self, section: str) -> Followed:
        """Do everything that a section says, from its top.

        Queries see the lines that were written since the page was taken.
        """
        followed = Followed()
        for language, text in _BLOCK.findall(self._page.sections[section]):
            if language == "insights":
                followed.queries.append(insights.answer(self._filled(text), self._lines()))
            elif language == "sh":
                for line in text.splitlines():
                    self._do(line, followed)
            else:
                raise StepUnknown(language)
        return followed

    def _do(self, line: str, followed: Followed) -> None:
        program, *arguments = shlex.split(line)
        if program == "sekali":
            filled = [self._filled(one) for one in arguments]
            followed.commands.append(self._sekali(*filled))
        elif program == "cdk":
            check_deployment(arguments)
            followed.deployments += 1
        else:
            raise StepUnknown(line)

    def _filled(self, text: str) -> str:
        return _PLACEHOLDER.sub(lambda found: self._said[found[0]], text)

    def _lines(self) -> list[Mapping[str, Any]]:  # Any: a log line is any JSON object
        return [one.fields for one in self._stack.logs.records()[self._seen :] if one.fields]


def check_deployment(arguments: list[str]) -> None:
    """Let the stack's own settings judge what would be deployed.

    Raises:
        ConfigInvalid: they refuse it.
        StepUnknown: it is no deployment.
    """
    if arguments[0] != "deploy" or arguments[1::2] != ["-c"] * (len(arguments) // 2):
        raise StepUnknown(" ".join(arguments))
    read(dict(one.split("=", 1) for one in arguments[2::2]))
