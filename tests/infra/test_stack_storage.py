"""What the deployed cache, table and bucket must be (FACTS 6)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.infra.synthesized import BUCKET, FUNCTION, GROUP, TABLE

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.infra.synthesized import Synthesized

pytestmark = pytest.mark.slow


def test_the_cache_is_encrypted_on_disk_and_on_the_wire(dev: Synthesized) -> None:
    group_of_nodes = dev.only(GROUP)

    assert group_of_nodes["Engine"] == "valkey"
    assert group_of_nodes["AtRestEncryptionEnabled"] is True
    assert group_of_nodes["TransitEncryptionEnabled"] is True
    assert group_of_nodes["TransitEncryptionMode"] == "required"


def test_a_production_cache_survives_the_loss_of_a_node(prod: Synthesized) -> None:
    group_of_nodes = prod.only(GROUP)

    assert group_of_nodes["NumCacheClusters"] >= 2
    assert group_of_nodes["AutomaticFailoverEnabled"] is True
    assert group_of_nodes["MultiAZEnabled"] is True


def test_the_only_user_of_the_cache_signs_and_cannot_administer(dev: Synthesized) -> None:
    user = dev.only("AWS::ElastiCache::User")
    (logical_id,) = dev.of("AWS::ElastiCache::User")
    (users,) = dev.of("AWS::ElastiCache::UserGroup")

    assert user["AuthenticationMode"] == {"Type": "iam"}
    assert user["UserId"] == user["UserName"] == user["UserId"].lower()
    assert "-@dangerous" in user["AccessString"]
    assert dev.only("AWS::ElastiCache::UserGroup")["UserIds"] == [{"Ref": logical_id}]
    assert dev.only(GROUP)["UserGroupIds"] == [{"Ref": users}]


@pytest.mark.parametrize("name", ["dev", "prod", "serverless"])
def test_names_of_the_cache_fit_into_what_elasticache_takes(
    name: str, variant: Callable[[str], Synthesized]
) -> None:
    variables = variant(name).only(FUNCTION)["Environment"]["Variables"]

    for variable in ("SEKALI_CACHE_NAME", "SEKALI_CACHE_IAM_USER"):
        assert re.fullmatch(r"[a-z](-?[a-z0-9]){0,39}", variables[variable])
        assert len(variables[variable]) <= 40


def test_results_expire_by_their_own_date_and_can_be_restored(every: Synthesized) -> None:
    table = every.only(TABLE)

    assert table["KeySchema"] == [{"AttributeName": "pk", "KeyType": "HASH"}]
    assert table["AttributeDefinitions"] == [{"AttributeName": "pk", "AttributeType": "S"}]
    assert table["TimeToLiveSpecification"] == {"AttributeName": "expires", "Enabled": True}
    assert table["BillingMode"] == "PAY_PER_REQUEST"
    assert table["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}


def test_the_bucket_is_closed_and_encrypted_and_remembers(every: Synthesized) -> None:
    bucket = every.only(BUCKET)

    assert all(bucket["PublicAccessBlockConfiguration"].values())
    assert len(bucket["PublicAccessBlockConfiguration"]) == 4
    assert bucket["VersioningConfiguration"] == {"Status": "Enabled"}
    (encryption,) = bucket["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    assert encryption["ServerSideEncryptionByDefault"] == {"SSEAlgorithm": "AES256"}


def test_a_large_result_outlives_its_record_but_not_for_ever(every: Synthesized) -> None:
    rules = every.only(BUCKET)["LifecycleConfiguration"]["Rules"]
    variables = every.only(FUNCTION)["Environment"]["Variables"]

    (days,) = [one["ExpirationInDays"] for one in rules if one.get("Prefix") == "results/"]

    assert int(variables["SEKALI_RECORD_TTL_SECONDS"]) < days * 86_400 <= 30 * 86_400


def test_a_large_payload_outlives_its_message_in_both_queues(every: Synthesized) -> None:
    rules = every.only(BUCKET)["LifecycleConfiguration"]["Rules"]
    kept_seconds = [
        queue["MessageRetentionPeriod"] for queue in every.of("AWS::SQS::Queue").values()
    ]

    (days,) = [one["ExpirationInDays"] for one in rules if one.get("Prefix") == "payloads/"]

    assert sum(kept_seconds) < days * 86_400


def test_production_keeps_its_data_and_development_does_not(
    dev: Synthesized, prod: Synthesized
) -> None:
    for kind in (TABLE, BUCKET, "AWS::Logs::LogGroup"):
        assert set(prod.policies(kind).values()) == {"Retain"}
        assert set(dev.policies(kind).values()) == {"Delete"}
    assert prod.only(TABLE)["DeletionProtectionEnabled"] is True
