"""The shared cache: ElastiCache for Valkey, encrypted, reached by the worker alone."""

from dataclasses import dataclass
from typing import Final

from aws_cdk import ArnFormat, Names, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_elasticache as elasticache
from constructs import Construct

ENGINE: Final = "valkey"
ENGINE_VERSION: Final = "8.1"
# Everything but what can destroy or inspect the server. Its narrowest form follows from the list of
# commands that the kit is tested to send.
ACCESS: Final = "on ~* +@all -@admin -@dangerous"


@dataclass(frozen=True, slots=True)
class CacheAddress:
    """What a client must know, and the resources that IAM authentication is granted on."""

    host: str
    port: str
    cluster: bool
    arn: str


class Cache(Construct):
    """A Valkey cache of one of two kinds, behind the same few attributes.

    `replication-group`: nodes of a fixed size, not in cluster mode; two or more fail over by
    themselves. `serverless`: no size to choose, always in cluster mode; its eviction policy is
    fixed to volatile-lru, so leases can be evicted under pressure.

    With `iam` only a signed, short-lived token of `user_id` opens a connection. Without it whoever
    passes the security group does.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        kind: str,
        nodes: int,
        node_type: str,
        iam: bool,
        vpc: ec2.IVpc,
        security_group: ec2.ISecurityGroup,
    ) -> None:
        super().__init__(scope, construct_id)
        # IAM authentication signs for the cache's name, which must be known and in lower case.
        # The kind is part of it, so that a change of kind does not meet a name that is taken.
        suffix = "s" if kind == "serverless" else "r"
        self.name = Names.unique_resource_name(self, max_length=38, separator="-").lower() + suffix
        self.user_id = f"{self.name}u" if iam else ""
        self._subnet_ids = vpc.select_subnets(
            subnet_type=ec2.SubnetType.PRIVATE_ISOLATED
        ).subnet_ids
        self._security_group_id = security_group.security_group_id

        self.connect_arns: list[str] = []
        user_group_id = self._user_group(self.user_id) if iam else None
        address = (
            self._serverless(user_group_id)
            if kind == "serverless"
            else self._replication_group(user_group_id, nodes=nodes, node_type=node_type)
        )
        if iam:
            self.connect_arns.append(address.arn)
        self.cluster = address.cluster
        # valkeys: TLS, always.
        self.url = f"valkeys://{address.host}:{address.port}"

    def _user_group(self, user_id: str) -> str:
        user = elasticache.CfnUser(
            self,
            "User",
            engine=ENGINE,
            user_id=user_id,
            # IAM authentication wants both alike.
            user_name=user_id,
            access_string=ACCESS,
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
        self, user_group_id: str | None, *, nodes: int, node_type: str
    ) -> CacheAddress:
        subnets = elasticache.CfnSubnetGroup(
            self, "Subnets", description="Isolated subnets", subnet_ids=self._subnet_ids
        )
        group = elasticache.CfnReplicationGroup(
            self,
            "Group",
            replication_group_id=self.name,
            replication_group_description="Claims, leases and cached values of Sekali",
            engine=ENGINE,
            engine_version=ENGINE_VERSION,
            auto_minor_version_upgrade=True,
            cache_node_type=node_type,
            num_cache_clusters=nodes,
            automatic_failover_enabled=nodes > 1,
            multi_az_enabled=nodes > 1,
            at_rest_encryption_enabled=True,
            transit_encryption_enabled=True,
            transit_encryption_mode="required",
            cache_subnet_group_name=subnets.ref,
            security_group_ids=[self._security_group_id],
            user_group_ids=[user_group_id] if user_group_id else None,
            # Everything in it has a TTL and a durable twin.
            snapshot_retention_limit=0,
        )
        return CacheAddress(
            host=group.attr_primary_end_point_address,
            port=group.attr_primary_end_point_port,
            cluster=False,
            # The resource has no attribute for it.
            arn=Stack.of(self).format_arn(
                service="elasticache",
                resource="replicationgroup",
                resource_name=self.name,
                arn_format=ArnFormat.COLON_RESOURCE_NAME,
            ),
        )

    def _serverless(self, user_group_id: str | None) -> CacheAddress:
        cache = elasticache.CfnServerlessCache(
            self,
            "Serverless",
            serverless_cache_name=self.name,
            description="Claims, leases and cached values of Sekali",
            engine=ENGINE,
            major_engine_version=ENGINE_VERSION.partition(".")[0],
            subnet_ids=self._subnet_ids,
            security_group_ids=[self._security_group_id],
            user_group_id=user_group_id,
            # A bill's upper bound: a runaway producer is throttled before it is charged.
            cache_usage_limits=elasticache.CfnServerlessCache.CacheUsageLimitsProperty(
                data_storage=elasticache.CfnServerlessCache.DataStorageProperty(
                    unit="GB", maximum=10
                ),
                ecpu_per_second=elasticache.CfnServerlessCache.ECPUPerSecondProperty(
                    maximum=100_000
                ),
            ),
            snapshot_retention_limit=0,
        )
        return CacheAddress(
            host=cache.attr_endpoint_address,
            port=cache.attr_endpoint_port,
            cluster=True,
            arn=cache.attr_arn,
        )
