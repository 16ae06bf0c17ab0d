"""All that a rehearsal changes of what the app synthesizes, in one place; each is printed.

The context chooses this machine and quick numbers. Then the template loses what ministack's
CloudFormation has no resource type for, and gains two actions that only ministack asks for. A
reference to what is left out becomes a name.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

Json = Any  # A template is any JSON.

CONTEXT: Final[Mapping[str, str]] = {
    # This machine's architecture and Python: that is where ministack's Lambda runs.
    "target": "host",
    "stage": "dev",
    # ministack starts an environment for each batch under way, all at once, from zip files: ten of
    # them take two cores long, and one that takes longer than its timeout is killed, whose messages
    # come back after six times that.
    "max_concurrency": "2",
    "timeout_seconds": "60",
    # How long a job waits for another that computes the same.
    "lease_seconds": "3",
}
BY_HAND: Final = frozenset({"AWS::EC2::SecurityGroupEgress", "AWS::EC2::SecurityGroupIngress"})
"""Made by the rehearsal through EC2's own interface, once their groups are deployed."""
LEFT_OUT: Final = frozenset(
    {
        "AWS::CloudWatch::CompositeAlarm",
        "AWS::CloudWatch::InsightRule",
        "AWS::Logs::QueryDefinition",
    }
)
"""Not deployed at all, and neither is an alarm on an expression of several metrics."""
BATCHES: Final = {
    "sqs:SendMessage": "sqs:SendMessageBatch",
    "sqs:ChangeMessageVisibility": "sqs:ChangeMessageVisibilityBatch",
}
"""AWS asks for the right of the single call; ministack has actions of its own for batches."""


_ALARM: Final = "AWS::CloudWatch::Alarm"
_STATISTICS: Final = frozenset({"Average", "Maximum", "Minimum", "SampleCount", "Sum"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Differences:
    """What was changed, by logical id; `rules` are the security rules to be made by hand."""

    resources: int
    rules: Mapping[str, Json]
    left_out: Mapping[str, str]
    rewritten: Sequence[str]
    batches: Mapping[str, str]

    def lines(self) -> Iterator[str]:
        """Tell each difference, for a reader who wants to know what was not rehearsed."""
        yield "  context      " + " ".join(f"{name}={value}" for name, value in CONTEXT.items())
        kinds = _counted(rule["Type"] for rule in self.rules.values())
        yield f"  by hand      {kinds}: unknown to ministack's CloudFormation, made through EC2"
        if self.left_out:
            kinds = _counted(self.left_out.values())
            yield f"  left out     {kinds}: unknown to ministack, or an expression of metrics"
        if self.rewritten:
            yield f"  rewritten    {len(self.rewritten)} Alarm: on its one metric, without a query"
        for name, batch in self.batches.items():
            yield f"  added        {batch} beside {name}: ministack asks for it, AWS has none such"


def apply(assembly: Path) -> Differences:
    """Change the one template of an assembly; answer what was changed."""
    (template,) = assembly.glob("*.template.json")
    whole = json.loads(template.read_text())
    resources: dict[str, Json] = whole["Resources"]
    rules = {name: one for name, one in resources.items() if one["Type"] in BY_HAND}
    left_out = {name: one["Type"] for name, one in resources.items() if _is_left_out(one)}
    kept = {name: one for name, one in resources.items() if name not in {*rules, *left_out}}
    rewritten = [name for name, one in kept.items() if one["Type"] == _ALARM]
    for name in rewritten:
        kept[name] = kept[name] | {"Properties": _on_one_metric(kept[name]["Properties"])}
    whole["Resources"] = {
        name: _with_batches(_named(_without(one, {*rules, *left_out}), left_out.keys()))
        for name, one in kept.items()
    }
    text = json.dumps(whole)
    template.write_text(text)
    return Differences(
        resources=len(kept),
        rules=rules,
        left_out=left_out,
        rewritten=rewritten,
        batches={name: batch for name, batch in BATCHES.items() if batch in text},
    )


def _is_left_out(resource: Json) -> bool:
    queries = resource.get("Properties", {}).get("Metrics", [])
    return resource["Type"] in LEFT_OUT or (resource["Type"] == _ALARM and len(queries) > 1)


def _on_one_metric(alarm: Json) -> Json:
    """Write an alarm's single query as the metric that it is."""
    (query,) = alarm["Metrics"]
    metric, statistic = query["MetricStat"], query["MetricStat"]["Stat"]
    field = "Statistic" if statistic in _STATISTICS else "ExtendedStatistic"
    rest = {name: value for name, value in alarm.items() if name != "Metrics"}
    return rest | metric["Metric"] | {"Period": metric["Period"], field: statistic}


def _named(value: Json, gone: AbstractSet[str]) -> Json:
    """Put a plausible name where something that is left out is referred to."""
    match value:
        case {"Ref": str(name)} | {"Fn::GetAtt": [str(name), *_]} if name in gone:
            return f"arn:aws:cloudwatch:us-east-1:000000000000:alarm:{name}"
        case dict():
            return {name: _named(one, gone) for name, one in value.items()}
        case list():
            return [_named(one, gone) for one in value]
        case _:
            return value


def _counted(kinds: Iterable[str]) -> str:
    counts = Counter(kind.rpartition("::")[2] for kind in kinds)
    return ", ".join(f"{count} {kind}" for kind, count in counts.items())


def _without(resource: Json, gone: AbstractSet[str]) -> Json:
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
