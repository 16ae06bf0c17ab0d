"""All that a rehearsal changes of what the app synthesizes, in one place; each is printed.

The context chooses this machine and quick numbers. Then the template loses what ministack's
CloudFormation has no resource type for, and gains two actions that only ministack asks for.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

Json = Any  # A template is any JSON.

CONTEXT: Final[Mapping[str, str]] = {
    # This machine's architecture and Python: that is where ministack's Lambda runs.
    "target": "host",
    "stage": "dev",
    # ministack starts an environment for each batch under way, all at once, from zip files, without
    # bytecode: ten of them take two cores half a minute, and one that takes longer than its timeout
    # is killed, whose messages come back after six times that.
    "max_concurrency": "2",
    "timeout_seconds": "60",
    # How long a job waits for another that computes the same.
    "lease_seconds": "3",
}
BY_HAND: Final = frozenset({"AWS::EC2::SecurityGroupEgress", "AWS::EC2::SecurityGroupIngress"})
"""Made by the rehearsal through EC2's own interface, once their groups are deployed."""
LEFT_OUT: Final[frozenset[str]] = frozenset()
"""Not deployed at all: nothing in a rehearsal depends on them."""
BATCHES: Final = {
    "sqs:SendMessage": "sqs:SendMessageBatch",
    "sqs:ChangeMessageVisibility": "sqs:ChangeMessageVisibilityBatch",
}
"""AWS asks for the right of the single call; ministack has actions of its own for batches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Differences:
    """What was changed; `rules` are the security rules to be made by hand."""

    resources: int
    rules: Mapping[str, Json]
    left_out: Mapping[str, str]

    def lines(self) -> Iterator[str]:
        """Tell each difference, for a reader who wants to know what was not rehearsed."""
        yield "  context      " + " ".join(f"{name}={value}" for name, value in CONTEXT.items())
        for name, rule in self.rules.items():
            kind = rule["Type"].rpartition("::")[2]
            yield f"  by hand      {kind} {name} (ministack's CloudFormation has no such type)"
        for name, kind in self.left_out.items():
            yield f"  left out     {kind} {name} (unknown to ministack)"
        for name, batch in BATCHES.items():
            yield f"  added        {batch} beside {name} (AWS has no such action)"


def apply(assembly: Path) -> Differences:
    """Change the one template of an assembly; answer what was changed."""
    (template,) = assembly.glob("*.template.json")
    whole = json.loads(template.read_text())
    resources: dict[str, Json] = whole["Resources"]
    rules = {name: one for name, one in resources.items() if one["Type"] in BY_HAND}
    left_out = {name: one["Type"] for name, one in resources.items() if one["Type"] in LEFT_OUT}
    gone = rules.keys() | left_out.keys()
    whole["Resources"] = {
        name: _with_batches(_without(one, gone))
        for name, one in resources.items()
        if name not in gone
    }
    template.write_text(json.dumps(whole))
    return Differences(resources=len(whole["Resources"]), rules=rules, left_out=left_out)


def _without(resource: Json, gone: set[str]) -> Json:
    """Let a resource not wait for what is gone."""
    waits = [name for name in _listed(resource.get("DependsOn", [])) if name not in gone]
    rest = {name: value for name, value in resource.items() if name != "DependsOn"}
    return rest | ({"DependsOn": waits} if waits else {})


def _with_batches(resource: Json) -> Json:
    if resource["Type"] == "AWS::IAM::Policy":
        for statement in resource["Properties"]["PolicyDocument"]["Statement"]:
            actions = _listed(statement["Action"])
            statement["Action"] = [*actions, *(BATCHES[one] for one in actions if one in BATCHES)]
    return resource


def _listed(value: str | Sequence[str]) -> list[str]:
    return [value] if isinstance(value, str) else list(value)
