"""A small synthesized stack, written by hand as CDK writes one: a function, a layer, two queues."""

from __future__ import annotations

import json
import textwrap
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

HANDLER = """
    import importlib, json, logging, os, sys, threading, time
    import toylib

    beats = []
    state = {"invocations": 0}

    def beat():
        while True:
            beats.append(time.time())
            time.sleep(0.005)

    def handler(event, context):
        state["invocations"] += 1
        do = event.get("do", "echo")
        return DOINGS[do](event, context)

    def look(event, context):
        return {
            "arn": context.invoked_function_arn,
            "event": event,
            "invocations": state["invocations"],
            "memory": context.memory_limit_in_mb,
            "remaining_ms": context.get_remaining_time_in_millis(),
            "request_id": context.aws_request_id,
            "toylib": toylib.VERSION,
            "trace": os.environ["_X_AMZN_TRACE_ID"],
        }

    def beating(event, context):
        if not beats:
            threading.Thread(target=beat, daemon=True).start()
        time.sleep(0.05)
        return {"beats": list(beats)}

    def sleep(event, context):
        before = context.get_remaining_time_in_millis()
        print("sleeping", flush=True)
        time.sleep(event["seconds"])
        return {"before_ms": before, "after_ms": context.get_remaining_time_in_millis()}

    def fail(event, context):
        raise RuntimeError("as asked")

    def die(event, context):
        os._exit(3)

    def load(event, context):
        module = importlib.import_module(event["module"])
        return {"file": module.__file__}

    def surroundings(event, context):
        return {"path": sys.path, "variables": dict(os.environ), "folder": os.getcwd()}

    def say(event, context):
        for line in event["lines"]:
            print(line)
        return None

    def log(event, context):
        try:
            raise ValueError("as asked")
        except ValueError:
            logging.getLogger().exception("it failed")
        print("after")

    def fill(event, context):
        return "x" * event["bytes"]

    def answer_records(event, context):
        failures = []
        for record in event["Records"]:
            body = json.loads(record["body"])
            if "tell" in body:
                print(json.dumps(body["tell"]), flush=True)
            time.sleep(body.get("seconds", 0))
            if body.get("fail"):
                failures.append({"itemIdentifier": record["messageId"]})
        return {"batchItemFailures": failures}

    def echo(event, context):
        if "Records" in event:
            return answer_records(event, context)
        return event

    DOINGS = {
        doing.__name__: doing
        for doing in (beating, die, echo, fail, fill, load, log, look, say, sleep, surroundings)
    }
"""


def write_assembly(
    folder: Path, *, resources: dict[str, Any] | None = None, timeout_seconds: int = 10
) -> Path:
    """Write a cloud assembly into `folder` and return it; `resources` replace ours by name."""
    _write(folder / "asset.code" / "toy" / "work.py", HANDLER)
    _write(folder / "asset.code" / "toy" / "__init__.py", "")
    _write(folder / "asset.layer" / "python" / "toylib" / "__init__.py", "VERSION = 7")
    template = {
        "Parameters": {"BootstrapVersion": {"Type": "String", "Default": "/cdk-bootstrap/version"}},
        "Resources": {**_resources(timeout_seconds), **(resources or {})},
    }
    _write_json(folder / "Toy.template.json", template)
    assets = {
        name: {
            "source": {"path": f"asset.{name}", "packaging": "zip"},
            "destinations": {"here": {"bucketName": "assets", "objectKey": f"{name}.zip"}},
        }
        for name in ("code", "layer")
    }
    _write_json(folder / "Toy.assets.json", {"files": assets})
    artifacts = {
        "Toy.assets": {"type": "cdk:asset-manifest", "properties": {"file": "Toy.assets.json"}},
        "Toy": {
            "type": "aws:cloudformation:stack",
            "properties": {"templateFile": "Toy.template.json"},
        },
        "Tree": {"type": "cdk:tree", "properties": {"file": "tree.json"}},
    }
    _write_json(folder / "manifest.json", {"artifacts": artifacts})
    return folder


def _resources(timeout_seconds: int) -> dict[str, Any]:
    code = {"S3Bucket": {"Fn::Sub": "cdk-assets-${AWS::AccountId}"}, "S3Key": "code.zip"}
    return {
        "Dead": {"Type": "AWS::SQS::Queue", "Properties": {"MessageRetentionPeriod": 1209600}},
        "Work": {
            "Type": "AWS::SQS::Queue",
            "Properties": {
                "VisibilityTimeout": 2,
                "RedrivePolicy": {
                    "deadLetterTargetArn": {"Fn::GetAtt": ["Dead", "Arn"]},
                    "maxReceiveCount": 2,
                },
            },
        },
        "Layer": {
            "Type": "AWS::Lambda::LayerVersion",
            "Properties": {"Content": {**code, "S3Key": "layer.zip"}},
        },
        "Role": {"Type": "AWS::IAM::Role", "Properties": {}},
        "Cache": {"Type": "AWS::ElastiCache::ReplicationGroup", "Properties": {}},
        "Worker": {
            "Type": "AWS::Lambda::Function",
            "Properties": {
                "Code": code,
                "Handler": "toy.work.handler",
                "Layers": [{"Ref": "Layer"}],
                "MemorySize": 256,
                "Role": {"Fn::GetAtt": ["Role", "Arn"]},
                "Runtime": "python3.13",
                "Timeout": timeout_seconds,
                "Environment": {
                    "Variables": {
                        "CACHE_URL": {
                            "Fn::Join": [
                                "",
                                [
                                    "valkeys://",
                                    {"Fn::GetAtt": ["Cache", "PrimaryEndPoint.Address"]},
                                    ":",
                                    {"Fn::GetAtt": ["Cache", "PrimaryEndPoint.Port"]},
                                ],
                            ]
                        },
                        "QUEUE_URL": {"Ref": "Work"},
                        "REGION": {"Ref": "AWS::Region"},
                    }
                },
            },
        },
        "Mapping": {
            "Type": "AWS::Lambda::EventSourceMapping",
            "Properties": {
                "BatchSize": 10,
                "EventSourceArn": {"Fn::GetAtt": ["Work", "Arn"]},
                "FunctionName": {"Ref": "Worker"},
                "FunctionResponseTypes": ["ReportBatchItemFailures"],
                "ScalingConfig": {"MaximumConcurrency": 2},
            },
        },
    }


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text))


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value))
