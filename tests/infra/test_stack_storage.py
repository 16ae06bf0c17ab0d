"""What the deployed cache, table and bucket must be (FACTS 6)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.infra.synthesized import BUCKET, GROUP, TABLE, queues
from tests.result_table import DEFINITION

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


def test_a_cache_in_cluster_mode_has_shards_that_fail_over_and_refuses_what_it_cannot_hold(
    hardened: Synthesized,
) -> None:
    group_of_nodes = hardened.only(GROUP)
    parameters = hardened.only("AWS::ElastiCache::ParameterGroup")

    assert (group_of_nodes["NumNodeGroups"], group_of_nodes["ReplicasPerNodeGroup"]) == (2, 1)
    assert group_of_nodes["AutomaticFailoverEnabled"] is True
    assert group_of_nodes["MultiAZEnabled"] is True
    assert parameters["Properties"] == {"maxmemory-policy": "noeviction", "cluster-enabled": "yes"}
    assert hardened.worker()["Environment"]["Variables"]["SEKALI_CACHE_CLUSTER"] == "true"
    assert "+cluster|slots" in hardened.only("AWS::ElastiCache::User")["AccessString"].split()


def test_an_own_key_encrypts_everything_that_is_kept(hardened: Synthesized) -> None:
    (key,) = hardened.data_keys()
    table = hardened.only(TABLE)["SSESpecification"]

    assert hardened.data_keys()[key]["EnableKeyRotation"] is True
    assert table["KMSMasterKeyId"] == {"Fn::GetAtt": [key, "Arn"]}
    assert hardened.only(GROUP)["KmsKeyId"] == {"Ref": key}
    assert hardened.policies("AWS::KMS::Key")[key] == "Retain"


def test_the_only_user_of_the_cache_signs_and_cannot_administer(dev: Synthesized) -> None:
    user = dev.only("AWS::ElastiCache::User")
    (logical_id,) = dev.of("AWS::ElastiCache::User")
    (users,) = dev.of("AWS::ElastiCache::UserGroup")

    assert user["AuthenticationMode"] == {"Type": "iam"}
    assert user["UserId"] == user["UserName"] == user["UserId"].lower()
    rights = user["AccessString"].split()
    resources = ["~{sekali:*", "~sekali:*", "&sekali:*"]
    assert rights[:6] == ["on", "resetchannels", *resources, "-@all"]
    assert {"+evalsha", "+eval", "+hmget"} <= set(rights[6:])
    assert all(re.fullmatch(r"\+[a-z|]+", right) for right in rights[6:])
    assert dev.only("AWS::ElastiCache::UserGroup")["UserIds"] == [{"Ref": logical_id}]
    assert dev.only(GROUP)["UserGroupIds"] == [{"Ref": users}]


@pytest.mark.parametrize("name", ["dev", "prod", "serverless"])
def test_names_of_the_cache_fit_into_what_elasticache_takes(
    name: str, variant: Callable[[str], Synthesized]
) -> None:
    variables = variant(name).worker()["Environment"]["Variables"]

    for variable in ("SEKALI_CACHE_NAME", "SEKALI_CACHE_IAM_USER"):
        assert re.fullmatch(r"[a-z](-?[a-z0-9]){0,39}", variables[variable])
        assert len(variables[variable]) <= 40


def test_results_expire_by_their_own_date_and_can_be_restored(every: Synthesized) -> None:
    table = every.only(TABLE)

    assert table["TimeToLiveSpecification"] == {"AttributeName": "expires", "Enabled": True}
    assert table["BillingMode"] == "PAY_PER_REQUEST"
    assert table["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}


def test_the_bucket_is_closed_and_encrypted_and_remembers(every: Synthesized) -> None:
    bucket = every.only(BUCKET)

    assert all(bucket["PublicAccessBlockConfiguration"].values())
    assert len(bucket["PublicAccessBlockConfiguration"]) == 4
    assert bucket["VersioningConfiguration"] == {"Status": "Enabled"}
    (encryption,) = bucket["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    own_key = bool(every.data_keys())
    algorithm = encryption["ServerSideEncryptionByDefault"]["SSEAlgorithm"]
    assert algorithm == ("aws:kms" if own_key else "AES256")
    assert bucket["NotificationConfiguration"] == {
        "EventBridgeConfiguration": {"EventBridgeEnabled": True}
    }


def test_a_large_result_outlives_its_record_but_not_for_ever(every: Synthesized) -> None:
    rules = every.only(BUCKET)["LifecycleConfiguration"]["Rules"]
    variables = every.worker()["Environment"]["Variables"]

    (days,) = [one["ExpirationInDays"] for one in rules if one.get("Prefix") == "results/"]

    assert int(variables["SEKALI_RECORD_TTL_SECONDS"]) < days * 86_400 <= 30 * 86_400


def test_a_large_payload_outlives_its_message_in_both_queues(every: Synthesized) -> None:
    rules = every.only(BUCKET)["LifecycleConfiguration"]["Rules"]
    kept_seconds = [queue["MessageRetentionPeriod"] for queue in queues(every)]

    (days,) = [one["ExpirationInDays"] for one in rules if one.get("Prefix") == "payloads/"]

    assert sum(kept_seconds) < days * 86_400


def test_production_keeps_its_data_and_development_does_not(
    dev: Synthesized, prod: Synthesized
) -> None:
    for kind in (TABLE, BUCKET, "AWS::Logs::LogGroup"):
        assert set(prod.policies(kind).values()) == {"Retain"}
        assert set(dev.policies(kind).values()) == {"Delete"}
    assert prod.only(TABLE)["DeletionProtectionEnabled"] is True


def test_the_table_is_the_one_that_the_library_is_tested_with(every_or_own: Synthesized) -> None:
    table = every_or_own.only(TABLE)

    assert {name: table[name] for name in DEFINITION} == DEFINITION
