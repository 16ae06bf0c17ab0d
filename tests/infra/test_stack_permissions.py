"""What the worker may do: listed here a second time, so that no grant slips in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.infra.synthesized import FUNCTION, GROUP, SERVERLESS, as_list, resolved, statements

if TYPE_CHECKING:
    from tests.infra.synthesized import Synthesized

pytestmark = pytest.mark.slow

# Which action of the role belongs to which resources; the code path beside it needs it.
GRANTS = {
    "WriteLogs": {"logs:CreateLogStream", "logs:PutLogEvents"},
    "SendTraces": {"xray:PutTelemetryRecords", "xray:PutTraceSegments"},
    "JoinNetwork": {
        "ec2:AssignPrivateIpAddresses",
        "ec2:CreateNetworkInterface",
        "ec2:DeleteNetworkInterface",
        "ec2:DescribeNetworkInterfaces",
        "ec2:DescribeSubnets",
        "ec2:UnassignPrivateIpAddresses",
    },
    "ReadQueue": {"sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ReceiveMessage"},
    "DeferMessages": {"sqs:ChangeMessageVisibility", "sqs:SendMessage"},
    "SendDeadLetters": {"sqs:SendMessage"},
    "KeepResults": {"dynamodb:BatchGetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"},
    "ReadFlights": {"s3:GetObject"},
    "KeepLargeResults": {"s3:GetObject", "s3:PutObject"},
    "ReadPayloads": {"s3:GetObject"},
    "TellMissingFromForbidden": {"s3:ListBucket"},
    "ConnectToCache": {"elasticache:Connect"},
}
# Lambda's own needs, which know no resources.
WITHOUT_RESOURCES = {"SendTraces", "JoinNetwork"}


def test_the_role_may_do_what_is_listed_here_and_nothing_else(dev: Synthesized) -> None:
    granted = {one["Sid"]: set(as_list(one["Action"])) for one in statements(dev)}

    assert granted == GRANTS


def test_no_action_has_a_wildcard_and_a_resource_only_where_there_is_none_to_name(
    every: Synthesized,
) -> None:
    for statement in statements(every):
        assert not [action for action in as_list(statement["Action"]) if "*" in action]
        if statement["Sid"] not in WITHOUT_RESOURCES:
            assert "*" not in as_list(statement["Resource"])


def test_objects_are_reached_under_three_prefixes_only(dev: Synthesized) -> None:
    resources = {
        one["Sid"]: resolved(one["Resource"], dev.resources)
        for one in statements(dev)
        if one["Sid"] in {"ReadFlights", "KeepLargeResults", "ReadPayloads"}
    }

    assert resources["ReadFlights"].endswith("/flights/*")
    assert resources["KeepLargeResults"].endswith("/results/*")
    assert resources["ReadPayloads"].endswith("/payloads/*")


def test_nothing_is_granted_by_a_managed_policy(every: Synthesized) -> None:
    assert "ManagedPolicyArns" not in every.only("AWS::IAM::Role")
    assert len(every.of("AWS::IAM::Policy")) == 1


def test_the_worker_connects_as_its_own_user_to_its_own_cache(
    dev: Synthesized, serverless: Synthesized
) -> None:
    for stack in (dev, serverless):
        (statement,) = [one for one in statements(stack) if one["Sid"] == "ConnectToCache"]
        (user,) = stack.of("AWS::ElastiCache::User")
        name = stack.only(FUNCTION)["Environment"]["Variables"]["SEKALI_CACHE_NAME"]

        granted = {resolved(arn, stack.resources) for arn in statement["Resource"]}

        caches = {f"{logical_id.lower()}.example.com" for logical_id in stack.of(SERVERLESS)}
        caches |= {
            f"arn:partition:elasticache:region:accountid:replicationgroup:{name}"
            for _ in stack.of(GROUP)
        }
        assert granted == {f"{user.lower()}.example.com", *caches}
        assert len(caches) == 1
