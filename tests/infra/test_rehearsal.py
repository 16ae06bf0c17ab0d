"""What a rehearsed deployment changes, what it tries, and what it leaves behind.

The rehearsal itself is `make deploy-local`.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import botocore
import botocore.session
import pytest
from botocore.validate import ParamValidator

from infra.rehearsal import differences, security_rules
from infra.rehearsal.deployment import Deployment, Shortfall
from infra.rehearsal.permissions import calls
from tests.infra.synthesized import ROOT, Synthesized, as_list, read, resolved, statements

pytestmark = pytest.mark.slow

ALARM = "AWS::CloudWatch::Alarm"
OUTPUTS = {
    "TableName": "table",
    "BucketName": "bucket",
    "QueueUrl": "https://sqs.us-east-1.amazonaws.com/000000000000/reports",
    "DeadLetterQueueUrl": "https://sqs.us-east-1.amazonaws.com/000000000000/dead",
    "FunctionName": "worker",
}
TRIED = calls(
    OUTPUTS,
    role="arn:aws:iam::000000000000:role/worker",
    recover_role="arn:aws:iam::000000000000:role/recover",
)


@pytest.fixture
def assembly(host: Synthesized, tmp_path: Path) -> Path:
    """A copy of an assembly's template, to be changed."""
    (template,) = host.folder.glob("*.template.json")
    shutil.copy(template, tmp_path)
    return tmp_path


def test_a_rehearsed_template_lacks_what_is_told_and_nothing_else(
    assembly: Path, host: Synthesized
) -> None:
    changed = differences.apply(assembly)
    rehearsed = read(assembly)

    told = "\n".join(changed.lines())
    gone = host.resources.keys() - rehearsed.resources.keys()
    assert gone == changed.rules.keys() | changed.left_out.keys()
    assert {host.resources[name]["Type"] for name in changed.left_out} <= {
        *differences.LEFT_OUT,
        ALARM,
    }
    assert changed.resources == len(rehearsed.resources)
    for name in gone:
        assert host.resources[name]["Type"].rpartition("::")[2] in told


def test_a_rehearsed_resource_differs_by_what_is_told_and_by_nothing_else(
    assembly: Path, host: Synthesized
) -> None:
    changed = differences.apply(assembly)
    rehearsed = read(assembly)

    differing = {
        name: resource
        for name, resource in rehearsed.resources.items()
        if resource != host.resources[name]
    }
    policies = {name for name, one in differing.items() if one["Type"] == "AWS::IAM::Policy"}
    referring = {
        name
        for name in differing
        if any(f'"{one}"' in json.dumps(host.resources[name]) for one in told_gone(changed))
    }
    assert differing.keys() == policies | referring | set(changed.rewritten)
    for name in policies - referring:
        assert without_batches(differing[name]) == without_batches(host.resources[name])
    assert changed.batches == {"sqs:SendMessage": "sqs:SendMessageBatch"}
    for batch in differences.BATCHES.values():
        assert (batch in rehearsed.text) == (batch in changed.batches.values())
        assert batch not in host.text


def told_gone(changed: differences.Differences) -> set[str]:
    return {*changed.rules, *changed.left_out}


def without_batches(resource: dict[str, Any]) -> dict[str, Any]:  # Any: JSON
    copy: dict[str, Any] = json.loads(json.dumps(resource))
    for statement in copy["Properties"]["PolicyDocument"]["Statement"]:
        actions = as_list(statement["Action"])
        batches = differences.BATCHES.values()
        statement["Action"] = [one for one in actions if one not in batches]
    return copy


def test_an_alarm_on_one_metric_says_the_same_without_a_query(
    assembly: Path, host: Synthesized
) -> None:
    changed = differences.apply(assembly)
    rehearsed = read(assembly)

    assert changed.rewritten
    for name in changed.rewritten:
        before, after = (one.resources[name]["Properties"] for one in (host, rehearsed))
        (query,) = before["Metrics"]
        statistic = after.get("Statistic", after.get("ExtendedStatistic"))
        assert (statistic, after["Period"]) == (
            query["MetricStat"]["Stat"],
            query["MetricStat"]["Period"],
        )
        assert after["MetricName"] == query["MetricStat"]["Metric"]["MetricName"]
        assert after["Threshold"] == before["Threshold"]
        assert "Metrics" not in after


def test_nothing_that_is_left_out_is_referred_to(assembly: Path) -> None:
    changed = differences.apply(assembly)

    text = read(assembly).text

    assert not [name for name in {*changed.rules, *changed.left_out} if f'"{name}"' in text]


def test_each_call_that_is_tried_is_one_that_the_service_would_take() -> None:
    """A call with a wrong argument is refused by the client, and proves nothing."""
    session = botocore.session.get_session()

    for call in [call for made in TRIED.values() for call in made]:
        model = session.get_service_model(call.service)
        names = {botocore.xform_name(name): name for name in model.operation_names}
        shape = model.operation_model(names[call.operation]).input_shape
        assert shape is not None
        report = ParamValidator().validate(call.arguments, shape)

        assert not report.has_errors(), f"{call}: {report.generate_report()}"


@pytest.mark.parametrize("handler", TRIED)
def test_each_call_that_must_work_is_granted_and_no_other(handler: str, host: Synthesized) -> None:
    """The list of refusals and the grants of the stack are two texts: they may not drift apart."""
    granted = {
        (action, resolved(resource, host.resources))
        for statement in statements(host, handler)
        if statement["Effect"] == "Allow"
        for action in as_list(statement["Action"])
        for resource in as_list(statement["Resource"])
    }
    actions = {action for action, _ in granted}

    for call in TRIED[handler]:
        name = "".join(part.capitalize() for part in call.operation.split("_"))
        if call.allowed:
            assert f"{call.service}:{name}" in actions
        elif call.service in {"iam", "sts", "kms", "lambda", "ssm", "events"}:
            assert f"{call.service}:{name}" not in actions


class Groups(Deployment):
    """A deployment whose EC2 forgets the rules that it is given."""

    def __init__(self, *, forgets: bool) -> None:
        self.forgets = forgets
        self.rules: dict[str, list[dict[str, Any]]] = {"in": [], "out": []}  # Any: JSON

    def client(self, service: str) -> Any:  # Any: stands for a client of boto3
        assert service == "ec2"
        return self

    def physical_id(self, reference: Any) -> str:  # Any: JSON
        return f"sg-{reference['Fn::GetAtt'][0]}"

    def authorize_security_group_ingress(self, **request: Any) -> None:  # Any: as boto3
        self.rules["in"] += [] if self.forgets else request["IpPermissions"]

    def authorize_security_group_egress(self, **request: Any) -> None:  # Any: as boto3
        self.rules["out"] += [] if self.forgets else request["IpPermissions"]

    def describe_security_groups(self, **_: Any) -> Any:  # Any: as boto3
        group = {"IpPermissions": self.rules["in"], "IpPermissionsEgress": self.rules["out"]}
        return {"SecurityGroups": [group]}


def test_rules_between_groups_are_made_as_the_template_has_them(assembly: Path) -> None:
    rules = differences.apply(assembly).rules
    deployment = Groups(forgets=False)

    told = security_rules.make(deployment, rules)

    assert told.startswith("3 rules")
    assert [len(deployment.rules[way]) for way in ("in", "out")] == [2, 1]
    with pytest.raises(Shortfall, match="is not among the rules"):
        security_rules.make(Groups(forgets=True), rules)


def test_a_rehearsal_that_is_interrupted_leaves_no_process_and_no_file(tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", "infra.rehearsal", "--plain"],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    begun = ""
    while "cdk bootstrap" not in begun:
        read_now = process.stdout.read(1)
        assert read_now, begun
        begun += read_now

    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=60)

    assert process.returncode == 130, said
    assert "nothing is left behind" in said
    assert list(tmp_path.iterdir()) == []
    assert processes_in(tmp_path) == []


def processes_in(folder: Path) -> list[str]:
    """Name the processes that run in a folder, or were told of it."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            here = str((process / "cwd").readlink())
        except OSError:
            continue
        if str(folder) in command or here.startswith(str(folder)):
            found.append(command)
    return found
