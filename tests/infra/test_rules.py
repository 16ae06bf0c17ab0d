"""A template that was changed behind the construct's back is found out, rule by rule."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest

from infra.rules import RULES, Resources, check

if TYPE_CHECKING:
    from collections.abc import Callable

Template = dict[str, Any]  # Any JSON.


def good() -> Template:
    """A template in which every rule has something to look at, and finds nothing."""
    return {
        "Resources": {
            "Queue": {
                "Type": "AWS::SQS::Queue",
                "Properties": {
                    "VisibilityTimeout": 183,
                    "MessageRetentionPeriod": 345_600,
                    "RedrivePolicy": {
                        "deadLetterTargetArn": {"Fn::GetAtt": ["Letters", "Arn"]},
                        "maxReceiveCount": 8,
                    },
                },
            },
            "Letters": {
                "Type": "AWS::SQS::Queue",
                "Properties": {
                    "MessageRetentionPeriod": 1_209_600,
                    "RedriveAllowPolicy": {"redrivePermission": "byQueue"},
                },
            },
            "Function": {
                "Type": "AWS::Lambda::Function",
                "Properties": {
                    "Timeout": 30,
                    "ReservedConcurrentExecutions": 10,
                    "SnapStart": {"ApplyOn": "PublishedVersions"},
                    "LoggingConfig": {"LogGroup": {"Ref": "Logs"}},
                },
            },
            "Logs": {"Type": "AWS::Logs::LogGroup", "Properties": {"RetentionInDays": 7}},
            "Live": {
                "Type": "AWS::Lambda::Alias",
                "Properties": {"FunctionName": {"Ref": "Function"}},
            },
            "Mapping": {
                "Type": "AWS::Lambda::EventSourceMapping",
                "Properties": {
                    "EventSourceArn": {"Fn::GetAtt": ["Queue", "Arn"]},
                    "FunctionName": {"Ref": "Live"},
                    "BatchSize": 100,
                    "MaximumBatchingWindowInSeconds": 3,
                    "FunctionResponseTypes": ["ReportBatchItemFailures"],
                    "MetricsConfig": {"Metrics": ["EventCount"]},
                    "ScalingConfig": {"MaximumConcurrency": 10},
                },
            },
            "Group": {
                "Type": "AWS::ElastiCache::ReplicationGroup",
                "Properties": {
                    "NumCacheClusters": 2,
                    "TransitEncryptionEnabled": True,
                    "AtRestEncryptionEnabled": True,
                    "AutomaticFailoverEnabled": True,
                    "MultiAZEnabled": True,
                },
            },
            "Serverless": {
                "Type": "AWS::ElastiCache::ServerlessCache",
                "Properties": {
                    "UserGroupId": "users",
                    "ServerlessCacheName": "serverless",
                    "SecurityGroupIds": ["group"],
                    "SubnetIds": ["subnet"],
                    "CacheUsageLimits": {"DataStorage": {"Maximum": 10, "Unit": "GB"}},
                },
            },
            "User": {
                "Type": "AWS::ElastiCache::User",
                "Properties": {"AccessString": "on ~sekali:* -@all +get"},
            },
            "Alarm": {
                "Type": "AWS::CloudWatch::Alarm",
                "Properties": {
                    "Namespace": "AWS/ElastiCache",
                    "Dimensions": [{"Name": "clusterId", "Value": {"Ref": "Serverless"}}],
                    "TreatMissingData": "notBreaching",
                    "AlarmDescription": "Keys are evicted. First: give it memory.",
                },
            },
            "Formula": {
                "Type": "AWS::CloudWatch::Alarm",
                "Properties": {
                    "Metrics": [
                        {"Id": "e", "Expression": "m1"},
                        {
                            "Id": "m1",
                            "MetricStat": {
                                "Metric": {
                                    "Namespace": "AWS/ElastiCache",
                                    "Dimensions": [{"Name": "clusterId", "Value": "serverless"}],
                                }
                            },
                        },
                    ],
                    "TreatMissingData": "notBreaching",
                    "AlarmDescription": "Keys are evicted. First: give it memory.",
                },
            },
        }
    }


def test_a_template_that_keeps_every_rule_passes() -> None:
    assert check(good()) == []


BREAKS: list[tuple[str, str, Callable[[Any], object]]] = [
    ("visibility", "Mapping", lambda of: of("Queue").update(VisibilityTimeout=182)),
    ("visibility", "Mapping", lambda of: of("Queue").pop("VisibilityTimeout")),
    ("visibility", "Mapping", lambda of: of("Function").update(Timeout=31)),
    ("partial-batches", "Mapping", lambda of: of("Mapping").pop("FunctionResponseTypes")),
    ("event-metrics", "Mapping", lambda of: of("Mapping").pop("MetricsConfig")),
    ("window", "Mapping", lambda of: of("Mapping").pop("MaximumBatchingWindowInSeconds")),
    ("window", "Mapping", lambda of: of("Queue").update(FifoQueue=True)),
    ("concurrency", "Mapping", lambda of: of("Mapping").pop("ScalingConfig")),
    (
        "concurrency",
        "Mapping",
        lambda of: of("Mapping").update(ProvisionedPollerConfig={"MaximumPollers": 2}),
    ),
    ("concurrency", "Function", lambda of: of("Function").update(ReservedConcurrentExecutions=9)),
    ("snapshot", "Mapping", lambda of: of("Mapping").update(FunctionName={"Ref": "Function"})),
    ("dead-letters", "Queue", lambda of: of("Queue")["RedrivePolicy"].update(maxReceiveCount=4)),
    ("dead-letters", "Queue", lambda of: of("Letters").update(FifoQueue=True)),
    ("dead-letters", "Queue", lambda of: of("Letters").pop("MessageRetentionPeriod")),
    ("dead-letters", "Queue", lambda of: of("Queue").update(MessageRetentionPeriod=1_209_600)),
    ("dead-letters", "Queue", lambda of: of("Letters").pop("RedriveAllowPolicy")),
    ("no-dead-letters", "Mapping", lambda of: of("Queue").pop("RedrivePolicy")),
    ("log-groups", "Function", lambda of: of("Function").pop("LoggingConfig")),
    ("caches", "Group", lambda of: of("Group").pop("TransitEncryptionEnabled")),
    ("caches", "Group", lambda of: of("Group").pop("AtRestEncryptionEnabled")),
    ("caches", "Group", lambda of: of("Group").update(MultiAZEnabled=False)),
    ("caches", "Serverless", lambda of: of("Serverless").pop("UserGroupId")),
    ("caches", "Serverless", lambda of: of("Serverless").pop("CacheUsageLimits")),
    ("cache-users", "User", lambda of: of("User").update(AccessString="on ~* +@all")),
    ("cache-users", "User", lambda of: of("User").update(AccessString="off ~sekali:* +get")),
    (
        "alarm-dimensions",
        "Alarm",
        lambda of: of("Alarm")["Dimensions"][0].update(Name="CacheClusterId"),
    ),
    (
        "alarm-dimensions",
        "Formula",
        lambda of: of("Formula")["Metrics"][1]["MetricStat"]["Metric"]["Dimensions"][0].update(
            Name="CacheClusterId"
        ),
    ),
    ("alarms", "Alarm", lambda of: of("Alarm").pop("TreatMissingData")),
    ("alarms", "Alarm", lambda of: of("Alarm").pop("AlarmDescription")),
]


@pytest.mark.parametrize(("rule", "resource", "change"), BREAKS)
def test_each_change_breaks_its_rule(
    rule: str, resource: str, change: Callable[[Any], object]
) -> None:
    template = good()

    change(lambda name: template["Resources"][name]["Properties"])

    assert {(one.rule, one.resource) for one in check(template)} >= {(rule, resource)}
    assert all(one.text and one.fix for one in check(template))


def test_every_rule_is_broken_here_once() -> None:
    assert {rule for rule, _, _ in BREAKS} == {rule.__name__.replace("_", "-") for rule in RULES}


def test_a_queue_that_two_mappings_share_needs_the_sum_of_their_caps() -> None:
    template = good()
    second = copy.deepcopy(template["Resources"]["Mapping"])
    template["Resources"]["Second"] = second
    template["Resources"]["Function"]["Properties"]["ReservedConcurrentExecutions"] = 19

    (broken,) = check(template)

    assert broken.resource == "Function"
    assert "20" in broken.fix


def test_what_stands_outside_of_the_template_is_left_alone() -> None:
    template = good()
    template["Resources"]["Mapping"]["Properties"]["EventSourceArn"] = "arn:aws:sqs:::theirs"
    del template["Resources"]["Mapping"]["Properties"]["FunctionResponseTypes"]

    assert check(template) == []
    assert Resources(template["Resources"]).function("Nowhere") is None
