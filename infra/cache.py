"""The shared cache: ElastiCache for Valkey, encrypted, reached by the functions alone."""

from dataclasses import dataclass, field
from typing import Final, Protocol

from aws_cdk import Acknowledgment, ArnFormat, Names, Stack, Validations
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_elasticache as elasticache
from aws_cdk import aws_kms as kms
from constructs import Construct

ENGINE: Final = "valkey"
ENGINE_VERSION: Final = "8.1"
SERVERLESS_GB: Final = 10


class SharedCache(Protocol):
    """What the stack must know of a cache, wherever it comes from.

    `connect_arns` are the resources that IAM authentication is granted on; none of them and no
    `user_id` means that connections are not signed.
    """

    name: str
    user_id: str
    url: str
    cluster: bool
    serverless: bool
    connect_arns: list[str]


@dataclass(slots=True, kw_only=True)
class ExistingCache:
    """A cache that somebody else made."""

    name: str
    user_id: str
    url: str
    cluster: bool
    serverless: bool = False
    connect_arns: list[str] = field(default_factory=list)

    @classmethod
    def of(
        cls, stack: Stack, *, url: str, name: str, user_id: str, cluster: bool
    ) -> "ExistingCache":
        """Describe a replication group; connections are signed where it and its user have names."""
        arns = [
            _arn(stack, kind, one)
            for kind, one in (("replicationgroup", name), ("user", user_id))
            if one
        ]
        return cls(name=name, user_id=user_id, url=url, cluster=cluster, connect_arns=arns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Nodes:
    """The nodes of a replication group: `shards` 0 is one shard that is not in cluster mode."""

    shards: int
    per_shard: int
    type: str


class Cache(Construct):
    """A Valkey cache of one of two kinds, behind the same few attributes.

    `replication-group`: nodes of a fixed size, in cluster mode or not; two or more to a shard fail
    over by themselves. `serverless`: no size to choose, always in cluster mode; its eviction policy
    is fixed to volatile-lru, so leases can be evicted under pressure.

    With an `access` string only a signed, short-lived token of `user_id` opens a connection, and
    the user group has no default user. Without it whoever passes the security group does.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        kind: str,
        nodes: Nodes,
        eviction: str,
        access: str | None,
        subnet_ids: list[str],
        security_group: ec2.ISecurityGroup,
        encryption_key: kms.IKey | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        self.serverless = kind == "serverless"
        # IAM authentication signs for the cache's name, which must be known and in lower case.
        # The kind is part of it, so that a change of kind does not meet a name that is taken.
        suffix = "s" if self.serverless else "c" if nodes.shards else "r"
        self.name = Names.unique_resource_name(self, max_length=38, separator="-").lower() + suffix
        self.user_id = f"{self.name}u" if access else ""
        self._subnet_ids = subnet_ids
        self._security_group_ids = [security_group.security_group_id]
        self._key_id = encryption_key.key_id if encryption_key else None

        self.connect_arns: list[str] = []
        user_group_id = self._user_group(access) if access else None
        host, port, arn = (
            self._serverless(user_group_id)
            if self.serverless
            else self._replication_group(user_group_id, nodes=nodes, eviction=eviction)
        )
        if access:
            self.connect_arns.append(arn)
        self.cluster = self.serverless or nodes.shards > 0
        # valkeys: TLS, always.
        self.url = f"valkeys://{host}:{port}"

    def _user_group(self, access: str) -> str:
        user = elasticache.CfnUser(
            self,
            "User",
            engine=ENGINE,
            user_id=self.user_id,
            # IAM authentication wants both alike.
            user_name=self.user_id,
            access_string=access,
            authentication_mode={"Type": "iam"},
        )
        group = elasticache.CfnUserGroup(
            self,
            "Users",
            engine=ENGINE,
            user_group_id=f"{self.name}g",
            # No default user: who is not named is refused.
            user_ids=[user.ref],
        )
        self.connect_arns.append(user.attr_arn)
        return group.ref

    def _replication_group(
        self, user_group_id: str | None, *, nodes: Nodes, eviction: str
    ) -> tuple[str, str, str]:
        subnets = elasticache.CfnSubnetGroup(
            self, "Subnets", description="Isolated subnets", subnet_ids=self._subnet_ids
        )
        parameters = elasticache.CfnParameterGroup(
            self,
            "Parameters",
            cache_parameter_group_family=f"{ENGINE}{ENGINE_VERSION.partition('.')[0]}",
            description="What becomes of keys when memory ends",
            properties={
                "maxmemory-policy": eviction,
                **({"cluster-enabled": "yes"} if nodes.shards else {}),
            },
        )
        group = elasticache.CfnReplicationGroup(
            self,
            "Group",
            replication_group_id=self.name,
            replication_group_description="Claims, leases and cached values of Sekali",
            engine=ENGINE,
            engine_version=ENGINE_VERSION,
            auto_minor_version_upgrade=True,
            cache_node_type=nodes.type,
            cache_parameter_group_name=parameters.ref,
            # Cluster mode wants it even where a shard has no replica.
            automatic_failover_enabled=nodes.per_shard > 1 or nodes.shards > 0,
            multi_az_enabled=nodes.per_shard > 1,
            at_rest_encryption_enabled=True,
            kms_key_id=self._key_id,
            transit_encryption_enabled=True,
            transit_encryption_mode="required",
            cache_subnet_group_name=subnets.ref,
            security_group_ids=self._security_group_ids,
            user_group_ids=[user_group_id] if user_group_id else None,
            # Everything in it has a TTL and a durable twin.
            snapshot_retention_limit=0,
            num_cache_clusters=None if nodes.shards else nodes.per_shard,
            num_node_groups=nodes.shards or None,
            replicas_per_node_group=nodes.per_shard - 1 if nodes.shards else None,
        )
        _acknowledge(group)
        # The resource has no attribute for its ARN.
        arn = _arn(Stack.of(self), "replicationgroup", self.name)
        if nodes.shards:
            return (
                group.attr_configuration_end_point_address,
                group.attr_configuration_end_point_port,
                arn,
            )
        return group.attr_primary_end_point_address, group.attr_primary_end_point_port, arn

    def _serverless(self, user_group_id: str | None) -> tuple[str, str, str]:
        cache = elasticache.CfnServerlessCache(
            self,
            "Serverless",
            serverless_cache_name=self.name,
            description="Claims, leases and cached values of Sekali",
            engine=ENGINE,
            major_engine_version=ENGINE_VERSION.partition(".")[0],
            subnet_ids=self._subnet_ids,
            security_group_ids=self._security_group_ids,
            kms_key_id=self._key_id,
            user_group_id=user_group_id,
            # A bill's upper bound: a runaway producer is throttled before it is charged.
            cache_usage_limits=elasticache.CfnServerlessCache.CacheUsageLimitsProperty(
                data_storage=elasticache.CfnServerlessCache.DataStorageProperty(
                    unit="GB", maximum=SERVERLESS_GB
                ),
                ecpu_per_second=elasticache.CfnServerlessCache.ECPUPerSecondProperty(
                    maximum=100_000
                ),
            ),
            snapshot_retention_limit=0,
        )
        return cache.attr_endpoint_address, cache.attr_endpoint_port, cache.attr_arn


def _arn(stack: Stack, kind: str, name: str) -> str:
    return stack.format_arn(
        service="elasticache",
        resource=kind,
        resource_name=name,
        arn_format=ArnFormat.COLON_RESOURCE_NAME,
    )


def _acknowledge(group: elasticache.CfnReplicationGroup) -> None:
    Validations.of(group).acknowledge(
        Acknowledgment(
            id="AwsSolutions-AEC5",
            reason="Another port hides nothing: the security group lets the functions in alone.",
        ),
        Acknowledgment(
            id="AwsSolutions-AEC6",
            reason="AUTH is one password for all. Connections are signed with the role instead.",
        ),
    )
    if group.multi_az_enabled is not True:
        Validations.of(group).acknowledge(
            Acknowledgment(
                id="AwsSolutions-AEC4",
                reason="One node, for a developer: what it holds has a durable twin or a TTL, and"
                " the worker defers while it is away.",
            )
        )
