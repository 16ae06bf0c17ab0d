"""Who can talk to whom in a deployed stack."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.infra.synthesized import (
    FUNCTION,
    SERVERLESS,
    as_list,
    group,
    resolved,
    security_group,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.infra.synthesized import Resource, Synthesized

pytestmark = pytest.mark.slow


def test_the_network_has_no_way_to_the_internet(every: Synthesized) -> None:
    kinds = {resource["Type"] for resource in every.resources.values()}

    assert not kinds & {
        "AWS::EC2::InternetGateway",
        "AWS::EC2::EgressOnlyInternetGateway",
        "AWS::EC2::NatGateway",
        "AWS::EC2::Route",
    }
    assert not any(one["MapPublicIpOnLaunch"] for one in every.of("AWS::EC2::Subnet").values())


def test_aws_is_reached_through_two_gateways_and_one_interface(every: Synthesized) -> None:
    endpoints = {
        "Interface" if one["VpcEndpointType"] == "Interface" else "Gateway": set[str]()
        for one in every.of("AWS::EC2::VPCEndpoint").values()
    }
    for one in every.of("AWS::EC2::VPCEndpoint").values():
        service = resolved(one["ServiceName"], every.resources).rpartition(".")[2]
        endpoints[one["VpcEndpointType"]].add(service)

    assert endpoints == {"Gateway": {"dynamodb", "s3"}, "Interface": {"sqs"}}


# What Lambda does with a function's role, from outside of the network.
BY_LAMBDA = {"ReadQueue", "KeepUndelivered", "WriteLogs", "SendTraces", "JoinNetwork"}


def passes(role: str, statement: Resource) -> Iterator[tuple[str, str, str]]:
    """Each role, action and resource of a statement."""
    for action in as_list(statement["Action"]):
        for resource in as_list(statement["Resource"]):
            yield role, action, json.dumps(resource, sort_keys=True)


def test_an_endpoint_lets_through_what_a_role_was_granted_for_its_code_and_nothing_else(
    every: Synthesized,
) -> None:
    granted = {
        one
        for policy in every.of("AWS::IAM::Policy").values()
        for statement in policy["PolicyDocument"]["Statement"]
        if statement["Sid"] not in BY_LAMBDA and statement["Effect"] == "Allow"
        for one in passes(policy["Roles"][0]["Ref"], statement)
    }
    endpoints = {
        resolved(one["ServiceName"], every.resources).rpartition(".")[2]: one["PolicyDocument"]
        for one in every.of("AWS::EC2::VPCEndpoint").values()
    }

    for service, policy in endpoints.items():
        let_through = set()
        for statement in policy["Statement"]:
            assert (statement["Effect"], statement["Principal"]) == ("Allow", "*")
            ((operator, condition),) = statement["Condition"].items()
            ((name, role),) = condition.items()
            assert (operator, name) == ("ArnEquals", "aws:PrincipalArn")
            let_through |= set(passes(role["Fn::GetAtt"][0], statement))
        wanted = {one for one in granted if one[1].startswith(f"{service}:")}

        assert let_through == wanted
        assert wanted


def test_what_lambda_does_with_a_role_does_not_open_an_endpoint(every: Synthesized) -> None:
    texts = [json.dumps(one) for one in every.of("AWS::EC2::VPCEndpoint").values()]

    assert not [text for text in texts if "sqs:ReceiveMessage" in text]
    assert not [text for text in texts if "Undelivered" in text]


def test_flows_are_logged_in_prod_into_a_group_that_forgets(
    prod: Synthesized, dev: Synthesized, own: Synthesized
) -> None:
    flows = prod.only("AWS::EC2::FlowLog")
    role = flows["DeliverLogsPermissionArn"]["Fn::GetAtt"][0]
    trust = prod.of("AWS::IAM::Role")[role]["AssumeRolePolicyDocument"]["Statement"][0]
    (policy,) = [
        one for one in prod.of("AWS::IAM::Policy").values() if one["Roles"] == [{"Ref": role}]
    ]
    (statement,) = policy["PolicyDocument"]["Statement"]
    log_group = flows["LogGroupName"]["Ref"]

    assert (flows["ResourceType"], flows["TrafficType"]) == ("VPC", "ALL")
    assert prod.of("AWS::Logs::LogGroup")[log_group]["RetentionInDays"] == 90
    assert trust["Principal"] == {"Service": "vpc-flow-logs.amazonaws.com"}
    # Or another account's network could have its flows written here.
    assert trust["Condition"]["StringEquals"] == {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}
    assert statement["Sid"] == "WriteFlows"
    assert statement["Resource"] == {"Fn::GetAtt": [log_group, "Arn"]}
    assert set(statement["Action"]) == {
        "logs:CreateLogStream",
        "logs:DescribeLogStreams",
        "logs:PutLogEvents",
    }
    assert not dev.of("AWS::EC2::FlowLog")
    assert not own.of("AWS::EC2::FlowLog")


def test_the_cache_is_entered_by_the_worker_alone_and_the_worker_by_nobody(
    every: Synthesized,
) -> None:
    worker, cache, endpoints = (
        security_group(every, text)
        for text in ("The worker functions", "The shared cache", "The interface endpoints")
    )

    entrances = {
        (group(one["GroupId"]), group(one["SourceSecurityGroupId"]), one["FromPort"], one["ToPort"])
        for one in every.of("AWS::EC2::SecurityGroupIngress").values()
    }

    assert entrances == {(cache, worker, 6379, 6380), (endpoints, worker, 443, 443)}
    groups = every.of("AWS::EC2::SecurityGroup")
    assert not any("SecurityGroupIngress" in one for one in groups.values())


def test_the_worker_leaves_for_the_cache_and_for_https_only(every: Synthesized) -> None:
    worker = security_group(every, "The worker functions")
    cache = security_group(every, "The shared cache")

    (to_cache,) = every.of("AWS::EC2::SecurityGroupEgress").values()
    (elsewhere,) = every.of("AWS::EC2::SecurityGroup")[worker]["SecurityGroupEgress"]

    assert group(to_cache["GroupId"]) == worker
    assert group(to_cache["DestinationSecurityGroupId"]) == cache
    assert (to_cache["FromPort"], to_cache["ToPort"]) == (6379, 6380)
    assert (elsewhere["FromPort"], elsewhere["ToPort"]) == (443, 443)


def test_worker_and_cache_stand_in_isolated_subnets_of_two_zones(every: Synthesized) -> None:
    subnets = [{"Ref": logical_id} for logical_id in every.of("AWS::EC2::Subnet")]

    for function in every.of(FUNCTION).values():
        assert function["VpcConfig"]["SubnetIds"] == subnets
    assert len(subnets) == 2
    for cache in every.of("AWS::ElastiCache::SubnetGroup").values():
        assert cache["SubnetIds"] == subnets
    for cache in every.of(SERVERLESS).values():
        assert cache["SubnetIds"] == subnets


def test_a_network_that_is_there_gets_security_rules_and_nothing_else(
    own: Synthesized,
) -> None:
    kinds = {
        resource["Type"]
        for resource in own.resources.values()
        if resource["Type"].startswith(("AWS::EC2", "AWS::ElastiCache"))
    }
    (ingress,) = own.of("AWS::EC2::SecurityGroupIngress").values()
    worker = security_group(own, "The worker functions")

    assert kinds == {
        "AWS::EC2::SecurityGroup",
        "AWS::EC2::SecurityGroupEgress",
        "AWS::EC2::SecurityGroupIngress",
    }
    assert ingress["GroupId"] == "sg-0123456789abcdef0"
    assert group(ingress["SourceSecurityGroupId"]) == worker
    assert (ingress["FromPort"], ingress["ToPort"]) == (6379, 6380)
    for function in own.of(FUNCTION).values():
        assert function["VpcConfig"]["SubnetIds"] == [
            "subnet-0123456789abcdef0",
            "subnet-0123456789abcdef1",
        ]
    (to_cache,) = own.of("AWS::EC2::SecurityGroupEgress").values()
    assert to_cache["DestinationSecurityGroupId"] == "sg-0123456789abcdef0"
    (elsewhere,) = own.of("AWS::EC2::SecurityGroup")[worker]["SecurityGroupEgress"]
    assert (elsewhere["FromPort"], elsewhere["ToPort"]) == (443, 443)
