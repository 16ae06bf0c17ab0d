"""Synthesize the app in this process, and read what it wrote."""

from __future__ import annotations

import fcntl
import json
import os
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

ROOT = Path(__file__).resolve().parents[2]
QUEUE = "AWS::SQS::Queue"
FUNCTION = "AWS::Lambda::Function"
MAPPING = "AWS::Lambda::EventSourceMapping"
BUCKET = "AWS::S3::Bucket"
TABLE = "AWS::DynamoDB::Table"
GROUP = "AWS::ElastiCache::ReplicationGroup"
SERVERLESS = "AWS::ElastiCache::ServerlessCache"
KEY = "AWS::KMS::Key"

Json = Any  # A template is any JSON.
Resource = dict[str, Json]


@dataclass(frozen=True, slots=True)
class Synthesized:
    """A cloud assembly in a folder."""

    folder: Path
    text: str
    resources: dict[str, Resource]

    def of(self, kind: str) -> dict[str, Resource]:
        """The properties of every resource of a type, by logical id."""
        return {
            logical_id: resource["Properties"]
            for logical_id, resource in self.resources.items()
            if resource["Type"] == kind
        }

    def only(self, kind: str) -> Resource:
        """The properties of the one resource of a type."""
        (properties,) = self.of(kind).values()
        return properties

    def worker(self) -> Resource:
        """The properties of the function that works off the queue."""
        return self.function("reports")

    def function(self, module: str) -> Resource:
        """The properties of the function behind a module of `handlers`."""
        (found,) = [
            one
            for one in self.of(FUNCTION).values()
            if one["Handler"] == f"handlers.{module}.handler"
        ]
        return found

    def policies(self, kind: str) -> dict[str, str]:
        """What becomes of each resource of a type when it leaves the stack."""
        return {
            logical_id: resource.get("DeletionPolicy", "Delete")
            for logical_id, resource in self.resources.items()
            if resource["Type"] == kind
        }

    def data_keys(self) -> dict[str, Resource]:
        """The keys that encrypt what is kept: not the one of the notices of alarms."""
        return {
            name: key for name, key in self.of(KEY).items() if "notices" not in key["Description"]
        }

    def asset(self, key: Json) -> Path:
        """The folder behind an `S3Key` of the template."""
        (manifest,) = self.folder.glob("*.assets.json")
        source = json.loads(manifest.read_text())["files"][key.removesuffix(".zip")]["source"]
        return self.folder / Path(source["path"])

    def assets(self) -> dict[str, Path]:
        """The folders of the function and its layers: `handlers`, `library`, `vendor`."""
        layers = self.of("AWS::Lambda::LayerVersion").values()
        named = {
            "library" if "sekali" in layer["Description"] else "vendor": layer["Content"]
            for layer in layers
        }
        named["handlers"] = self.worker()["Code"]
        return {name: self.asset(place["S3Key"]) for name, place in named.items()}


def flags() -> dict[str, Json]:
    """The feature flags of cdk.json, which the CDK command hands to the app."""
    found: dict[str, Json] = json.loads((ROOT / "cdk.json").read_text())["context"]
    return found


def synthesize(folder: Path, **context: str) -> Synthesized:
    """Build the app as the CDK command does."""
    # Here, because the import starts Node.
    from aws_cdk import App

    from infra.app import build

    # A user's cdk.json may name workers of their own.
    app = App(context={**flags(), "workers": "reports", **context}, outdir=str(folder))
    build(app)
    app.synth()
    return read(folder)


def read(folder: Path) -> Synthesized:
    """Read the one template of a cloud assembly."""
    (template,) = folder.glob("*.template.json")
    text = template.read_text()
    return Synthesized(folder=folder, text=text, resources=json.loads(text)["Resources"])


@contextmanager
def once(tmp_path_factory: pytest.TempPathFactory, name: str) -> Iterator[tuple[Path, bool]]:
    """Hold a folder that all test processes share, and say whether it is still to be filled.

    It counts as filled when the block ends without an error; other processes wait for that.
    """
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    folder, filled = shared / name, shared / f"{name}.filled"
    with (shared / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder, not filled.exists()
        filled.touch()


def resolved(value: Json, resources: dict[str, Resource]) -> str:
    """Put plausible names where CloudFormation would put the real ones."""
    match value:
        case str():
            return value
        case {"Ref": "AWS::StackName"}:
            return "Sekali-dev"
        case {"Ref": str(pseudo)} if pseudo.startswith("AWS::"):
            return pseudo.removeprefix("AWS::").lower()
        case {"Ref": str(logical_id)}:
            return _reference(logical_id, resources)
        case {"Fn::GetAtt": [_, str(attribute)]} if attribute.endswith("Port"):
            return "6379"
        case {"Fn::GetAtt": [str(logical_id), str()]}:
            return f"{logical_id.lower()}.example.com"
        case {"Fn::Join": [str(separator), list(parts)]}:
            return separator.join(resolved(part, resources) for part in parts)
        case _:
            raise AssertionError(f"the tests cannot resolve {value}")


def _reference(logical_id: str, resources: dict[str, Resource]) -> str:
    properties = resources[logical_id]["Properties"]
    if resources[logical_id]["Type"] == "AWS::SQS::Queue":
        suffix = ".fifo" if properties.get("FifoQueue") else ""
        name = resolved(properties.get("QueueName", f"{logical_id}{suffix}"), resources)
        return f"https://sqs.eu-west-1.amazonaws.com/111122223333/{name}"
    return logical_id.lower()


def queues(stack: Synthesized) -> tuple[Resource, Resource]:
    """The queue and its dead letters."""
    found = stack.of(QUEUE)
    (source,) = [queue for queue in found.values() if "RedrivePolicy" in queue]
    target, _ = source["RedrivePolicy"]["deadLetterTargetArn"]["Fn::GetAtt"]
    return source, found[target]


def statements(stack: Synthesized, module: str = "reports") -> list[Resource]:
    """What the role of the function behind a module of `handlers` may do."""
    role, _ = stack.function(module)["Role"]["Fn::GetAtt"]
    (policy,) = [
        one for one in stack.of("AWS::IAM::Policy").values() if one["Roles"] == [{"Ref": role}]
    ]
    found: list[Resource] = policy["PolicyDocument"]["Statement"]
    return found


def as_list(value: Json) -> list[Json]:
    """The value as a list; a policy leaves the list out around a single one."""
    return value if isinstance(value, list) else [value]


def security_group(stack: Synthesized, description: str) -> str:
    """The logical id of the group with a description."""
    groups = stack.of("AWS::EC2::SecurityGroup").items()
    (found,) = [name for name, one in groups if one["GroupDescription"] == description]
    return found


def group(reference: Resource) -> str:
    """The logical id in a reference to a group."""
    name, attribute = reference["Fn::GetAtt"]
    assert attribute == "GroupId"
    return str(name)
