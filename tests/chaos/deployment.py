"""A synthesized stack of chaos jobs, written by hand as CDK writes one."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from infra import vendor
from infra.platforms import host_platform

if TYPE_CHECKING:
    from collections.abc import Mapping

RESULTS: Final = "results"
LEDGER: Final = "ledger"
CODE: Final = Path(__file__).with_name("asset")
_LIBRARY: Final = vendor.ROOT / "layers" / "sekali"


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """The numbers of a stack; a visibility below the timeout is a fault of its own."""

    timeout_seconds: int = 8
    visibility_seconds: int = 9
    max_receives: int = 1000
    batch_size: int = 10
    max_concurrency: int = 3
    lease_seconds: float = 1.5
    suffix: str = ""
    code: Path = CODE
    handler: str = "chaosjobs.handler.handler"
    mutant: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def results(self) -> str:
        """Name the table of results."""
        return f"{RESULTS}{self.suffix}"

    @property
    def ledger(self) -> str:
        """Name the table that belongs to the jobs."""
        return f"{LEDGER}{self.suffix}"


def write(folder: Path, deployment: Deployment, *, sources: Path) -> Path:
    """Write the cloud assembly into `folder` and return it; loaders read files in `sources`."""
    folder.mkdir(parents=True)
    template = {"Resources": _resources(deployment, sources)}
    (folder / "Chaos.template.json").write_text(json.dumps(template))
    assets = {
        "code": deployment.code,
        "library": _LIBRARY,
        "vendor": vendor.install(host_platform()),
    }
    files = {
        name: {
            "source": {"path": str(path), "packaging": "zip"},
            "destinations": {"here": {"bucketName": "assets", "objectKey": f"{name}.zip"}},
        }
        for name, path in assets.items()
    }
    (folder / "Chaos.assets.json").write_text(json.dumps({"files": files}))
    artifacts = {
        "Chaos.assets": {"type": "cdk:asset-manifest", "properties": {"file": "Chaos.assets.json"}},
        "Chaos": {
            "type": "aws:cloudformation:stack",
            "properties": {"templateFile": "Chaos.template.json"},
        },
    }
    (folder / "manifest.json").write_text(json.dumps({"artifacts": artifacts}))
    return folder


def _resources(deployment: Deployment, sources: Path) -> dict[str, Any]:  # Any: JSON
    return {
        "Dead": {
            "Type": "AWS::SQS::Queue",
            "Properties": {
                "QueueName": f"dead{deployment.suffix}",
                "MessageRetentionPeriod": 1209600,
            },
        },
        "Jobs": {
            "Type": "AWS::SQS::Queue",
            "Properties": {
                "QueueName": f"jobs{deployment.suffix}",
                "VisibilityTimeout": deployment.visibility_seconds,
                "RedrivePolicy": {
                    "deadLetterTargetArn": {"Fn::GetAtt": ["Dead", "Arn"]},
                    "maxReceiveCount": deployment.max_receives,
                },
            },
        },
        "Results": _table(deployment.results, "pk"),
        "Ledger": _table(deployment.ledger, "account"),
        "Large": {
            "Type": "AWS::S3::Bucket",
            "Properties": {"BucketName": f"large{deployment.suffix}"},
        },
        "Cache": {"Type": "AWS::ElastiCache::ReplicationGroup", "Properties": {}},
        "Library": _layer("library"),
        "Vendor": _layer("vendor"),
        "Worker": {
            "Type": "AWS::Lambda::Function",
            "Properties": {
                "Code": {"S3Key": "code.zip"},
                "Handler": deployment.handler,
                "Layers": [{"Ref": "Vendor"}, {"Ref": "Library"}],
                "MemorySize": 256,
                "Runtime": f"python3.{sys.version_info[1]}",
                "Timeout": deployment.timeout_seconds,
                "Environment": {"Variables": _variables(deployment, sources)},
            },
        },
        "Mapping": {
            "Type": "AWS::Lambda::EventSourceMapping",
            "Properties": {
                "BatchSize": deployment.batch_size,
                "EventSourceArn": {"Fn::GetAtt": ["Jobs", "Arn"]},
                "FunctionName": {"Ref": "Worker"},
                "FunctionResponseTypes": ["ReportBatchItemFailures"],
                "ScalingConfig": {"MaximumConcurrency": deployment.max_concurrency},
            },
        },
    }


def _table(name: str, key: str) -> dict[str, Any]:  # Any: JSON
    return {
        "Type": "AWS::DynamoDB::Table",
        "Properties": {
            "TableName": name,
            "KeySchema": [{"AttributeName": key, "KeyType": "HASH"}],
            "AttributeDefinitions": [{"AttributeName": key, "AttributeType": "S"}],
            "BillingMode": "PAY_PER_REQUEST",
        },
    }


def _layer(asset: str) -> dict[str, Any]:  # Any: JSON
    return {
        "Type": "AWS::Lambda::LayerVersion",
        "Properties": {"Content": {"S3Key": f"{asset}.zip"}},
    }


def _variables(deployment: Deployment, sources: Path) -> dict[str, Any]:  # Any: JSON
    cache = {"Fn::GetAtt": ["Cache", "PrimaryEndPoint.Address"]}
    port = {"Fn::GetAtt": ["Cache", "PrimaryEndPoint.Port"]}
    return {
        "CHAOS_LEDGER": deployment.ledger,
        "CHAOS_MUTANT": deployment.mutant,
        "CHAOS_SOURCES": str(sources),
        "POWERTOOLS_LOG_LEVEL": "INFO",
        "POWERTOOLS_METRICS_NAMESPACE": "Sekali",
        "POWERTOOLS_SERVICE_NAME": "chaos",
        "POWERTOOLS_TRACE_DISABLED": "true",
        "SEKALI_CACHE_URL": {"Fn::Join": ["", ["valkey://", cache, ":", port]]},
        "SEKALI_COOLING_BASE_SECONDS": "0.2",
        "SEKALI_COOLING_CAP_SECONDS": "2",
        "SEKALI_DEAD_LETTER_QUEUE_URL": {"Ref": "Dead"},
        "SEKALI_LEASE_SECONDS": f"{deployment.lease_seconds:g}",
        "SEKALI_MAX_ATTEMPTS": "50",
        "SEKALI_PARTIAL_BATCH": "true",
        "SEKALI_QUEUE_URL": {"Ref": "Jobs"},
        "SEKALI_RESULTS_BUCKET": {"Ref": "Large"},
        "SEKALI_TABLE_NAME": deployment.results,
        "SEKALI_VISIBILITY_SECONDS": str(deployment.visibility_seconds),
        **deployment.settings,
    }
