"""Who can talk to whom in a deployed stack."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.infra.synthesized import FUNCTION, SERVERLESS, group, resolved, security_group

if TYPE_CHECKING:
    from tests.infra.synthesized import Synthesized

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
