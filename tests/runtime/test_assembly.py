"""Reading a cloud assembly: every number and name comes from it, and what cannot run is refused."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from infra.local import assembly
from infra.local.intrinsics import Scope, TemplateUnsupported, resolve
from infra.local.template import EventSourceMapping
from tests.runtime.toy import write_assembly

if TYPE_CHECKING:
    from pathlib import Path


def test_a_function_is_read_with_its_folders_and_numbers(tmp_path: Path) -> None:
    folder = write_assembly(tmp_path, timeout_seconds=9)

    function = assembly.read(folder).functions["Worker"]

    assert function.handler == "toy.work.handler"
    assert function.timeout_seconds == 9.0
    assert function.memory_mib == 256
    assert function.code == tmp_path / "asset.code"
    assert function.layers == (tmp_path / "asset.layer",)
    assert function.variables["REGION"] == "us-east-1"


def test_a_mapping_is_read_with_its_numbers(tmp_path: Path) -> None:
    template = assembly.read(write_assembly(tmp_path))

    assert template.mappings == (
        EventSourceMapping(
            logical_id="Mapping",
            function="Worker",
            queue="Work",
            batch_size=10,
            window_seconds=0.0,
            partial_batches=True,
            max_concurrency=2,
        ),
    )


def test_a_mapping_without_numbers_has_the_defaults_of_lambda(tmp_path: Path) -> None:
    mapping = {
        "Type": "AWS::Lambda::EventSourceMapping",
        "Properties": {
            "EventSourceArn": {"Fn::GetAtt": ["Work", "Arn"]},
            "FunctionName": {"Fn::GetAtt": ["Worker", "Arn"]},
        },
    }

    (read,) = assembly.read(write_assembly(tmp_path, resources={"Mapping": mapping})).mappings

    assert (read.batch_size, read.window_seconds, read.max_concurrency) == (10, 0.0, 1250)
    assert not read.partial_batches


def test_a_mapping_may_name_an_alias(tmp_path: Path) -> None:
    resources = {
        "Live": {
            "Type": "AWS::Lambda::Alias",
            "Properties": {"Name": "live", "FunctionName": {"Ref": "Worker"}},
        },
        "Mapping": {
            "Type": "AWS::Lambda::EventSourceMapping",
            "Properties": {
                "EventSourceArn": {"Fn::GetAtt": ["Work", "Arn"]},
                "FunctionName": {"Ref": "Live"},
            },
        },
    }

    (mapping,) = assembly.read(write_assembly(tmp_path, resources=resources)).mappings

    assert mapping.function == "Worker"


def test_a_queue_is_read_as_the_queue_interface_wants_it(tmp_path: Path) -> None:
    queue = assembly.read(write_assembly(tmp_path)).queues["Work"]

    assert queue.attributes["VisibilityTimeout"] == "2"
    assert json.loads(queue.attributes["RedrivePolicy"]) == {
        "deadLetterTargetArn": "arn:aws:sqs:us-east-1:000000000000:Dead",
        "maxReceiveCount": 2,
    }
    assert queue.dead_letters == "arn:aws:sqs:us-east-1:000000000000:Dead"
    assert not queue.fifo


def test_a_table_is_read_with_its_expiry(tmp_path: Path) -> None:
    properties = {
        "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}],
        "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
        "BillingMode": "PAY_PER_REQUEST",
        "TimeToLiveSpecification": {"AttributeName": "expires", "Enabled": True},
        "PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": True},
    }
    table = {"Type": "AWS::DynamoDB::Table", "Properties": properties}

    (read,) = assembly.read(write_assembly(tmp_path, resources={"Results": table})).tables

    assert read.name == "Results"
    assert read.ttl_attribute == "expires"
    assert set(read.definition) == {
        "TableName",
        "AttributeDefinitions",
        "KeySchema",
        "BillingMode",
    }


def test_what_is_not_run_is_listed(tmp_path: Path) -> None:
    assert assembly.read(write_assembly(tmp_path)).left_out == ("AWS::IAM::Role",)


def worker_with(**properties: Any) -> dict[str, Any]:
    return {
        "Type": "AWS::Lambda::Function",
        "Properties": {
            "Code": {"S3Key": "code.zip"},
            "Handler": "toy.work.handler",
            "Runtime": "python3.13",
            **properties,
        },
    }


def mapping_with(**properties: Any) -> dict[str, Any]:
    return {
        "Type": "AWS::Lambda::EventSourceMapping",
        "Properties": {
            "EventSourceArn": {"Fn::GetAtt": ["Work", "Arn"]},
            "FunctionName": {"Ref": "Worker"},
            **properties,
        },
    }


@pytest.mark.parametrize(
    ("resources", "text"),
    [
        pytest.param(
            {"Worker": worker_with(Environment={"Variables": {"A": {"Ref": "Nobody"}}})},
            "Nobody",
            id="unknown name",
        ),
        pytest.param(
            {
                "Worker": worker_with(
                    Environment={"Variables": {"A": {"Fn::GetAtt": ["Role", "Arn"]}}}
                )
            },
            "variable A needs Role.Arn",
            id="variable that names what is not run",
        ),
        pytest.param(
            {"Worker": worker_with(Code={"S3Key": "missing.zip"})}, "Worker", id="no such asset"
        ),
        pytest.param(
            {"Worker": worker_with(Layers=["arn:aws:lambda:foreign"])},
            "a layer that is not in the stack",
            id="foreign layer",
        ),
        pytest.param(
            {"Worker": worker_with(Timeout={"Fn::GetAZs": ""})}, "Fn::GetAZs", id="function"
        ),
        pytest.param(
            {"Mapping": mapping_with(FilterCriteria={"Filters": []})}, "filter", id="filters"
        ),
        pytest.param(
            {"Mapping": mapping_with(EventSourceArn="arn:aws:sqs:elsewhere")},
            "no queue of the stack",
            id="foreign queue",
        ),
        pytest.param(
            {"Cache": {"Type": "AWS::ElastiCache::ServerlessCache", "Properties": {}}},
            "cluster mode",
            id="serverless cache",
        ),
    ],
)
def test_what_would_differ_in_silence_is_refused_by_name(
    tmp_path: Path, resources: dict[str, Any], text: str
) -> None:
    folder = write_assembly(tmp_path, resources=resources)

    with pytest.raises(TemplateUnsupported, match=text):
        assembly.read(folder)


class Everywhere:
    """A resource that answers with its own questions."""

    def reference(self) -> str:
        return "reference"

    def attribute(self, name: str) -> str:
        return f"attribute {name}"


SCOPE = Scope(
    names={"AWS::Region": "r", "Stage": "dev"},
    locate=lambda logical_id: Everywhere(),  # noqa: ARG005 - the same for every name
    conditions={
        "IsDev": {"Fn::Equals": [{"Ref": "Stage"}, "dev"]},
        "IsProd": {"Fn::Not": [{"Condition": "IsDev"}]},
    },
    mappings={"Sizes": {"dev": {"nodes": 1}}},
)


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        ({"Ref": "AWS::Region"}, "r"),
        ({"Ref": "Thing"}, "reference"),
        ({"Fn::GetAtt": ["Thing", "End.Address"]}, "attribute End.Address"),
        ({"Fn::GetAtt": "Thing.Arn"}, "attribute Arn"),
        ({"Fn::Join": ["-", ["a", {"Ref": "Stage"}]]}, "a-dev"),
        (
            {"Fn::Sub": "${AWS::Region}/${Thing.Arn}/${Thing}/${!Raw}"},
            "r/attribute Arn/reference/${Raw}",
        ),
        ({"Fn::Sub": ["${x}-${Stage}", {"x": {"Ref": "Thing"}}]}, "reference-dev"),
        ({"Fn::Select": ["1", {"Fn::Split": [",", "a,b,c"]}]}, "b"),
        ({"Fn::If": ["IsDev", 1, 2]}, 1),
        ({"Fn::If": ["IsProd", 1, 2]}, 2),
        ({"a": {"Fn::If": ["IsProd", 1, {"Ref": "AWS::NoValue"}]}, "b": 2}, {"b": 2}),
        ([{"Fn::If": ["IsProd", 1, {"Ref": "AWS::NoValue"}]}, 2], [2]),
        ({"Fn::FindInMap": ["Sizes", {"Ref": "Stage"}, "nodes"]}, 1),
        ({"Fn::And": [{"Condition": "IsDev"}, {"Condition": "IsProd"}]}, False),
        ({"Fn::Or": [{"Condition": "IsDev"}, {"Condition": "IsProd"}]}, True),
    ],
)
def test_intrinsic_functions_resolve(node: Any, expected: Any) -> None:
    assert resolve(node, SCOPE) == expected


def test_two_stacks_at_once_are_refused(tmp_path: Path) -> None:
    folder = write_assembly(tmp_path)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["artifacts"]["Other"] = manifest["artifacts"]["Toy"]
    (folder / "manifest.json").write_text(json.dumps(manifest))

    with pytest.raises(TemplateUnsupported, match="2 stacks at once"):
        assembly.read(folder)
