"""The private network of the functions and the cache: no way in, out only to what it names."""

from collections.abc import Sequence

from aws_cdk import Acknowledgment, Validations
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from constructs import Construct

HTTPS = ec2.Port.tcp(443)
# 6379 is the cache; 6380 is where a serverless cache answers reads from a replica.
CACHE_PORTS = ec2.Port.tcp_range(6379, 6380)


class Network(Construct):
    """Isolated subnets in two zones, the AWS services they reach, and who may talk to whom.

    There is no internet gateway and no NAT (32 USD a month and zone, and a way out), but

    service    endpoint   why
    DynamoDB   gateway    the table of results; costs nothing
    S3         gateway    the flights, and results too large for an item; costs nothing
    SQS        interface  delayed copies, dead letters and visibilities: the worker's own calls
                          (about 7 USD a month and zone)

    and no more: Lambda delivers messages, logs and traces outside of this network, KMS is called by
    the services, and a token for the cache is signed without a call.

    An endpoint's policy lets through what a role was granted for its own code (`let_through`), by
    that role, on those resources: with whatever credentials somebody comes from inside, nothing
    leaves for another account's queue, table or bucket.

    With a VPC of your own (`existing_vpc_id`, `existing_subnet_ids`) these three ways are yours to
    make, and so are flow logs; here are only the security groups then.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        existing_vpc_id: str = "",
        existing_subnet_ids: Sequence[str] = (),
        cache_security_group_id: str = "",
    ) -> None:
        super().__init__(scope, construct_id)
        self._endpoints: dict[str, ec2.VpcEndpoint] = {}
        self._own = not existing_vpc_id
        self.vpc = (
            self._existing_vpc(existing_vpc_id, existing_subnet_ids)
            if existing_vpc_id
            else self._isolated_vpc()
        )
        self.subnets = ec2.SubnetSelection(subnet_type=ec2.SubnetType.PRIVATE_ISOLATED)
        self.subnet_ids = list(
            self.vpc.select_subnets(subnet_type=ec2.SubnetType.PRIVATE_ISOLATED).subnet_ids
        )
        self.worker = self._security_group("Worker", description="The worker functions")
        self.cache: ec2.ISecurityGroup = (
            ec2.SecurityGroup.from_security_group_id(self, "Cache", cache_security_group_id)
            if cache_security_group_id
            else self._security_group("Cache", description="The shared cache")
        )
        self.worker.add_egress_rule(self.cache, CACHE_PORTS, "The shared cache")
        self.cache.add_ingress_rule(self.worker, CACHE_PORTS, "The worker functions")
        # Gateway endpoints are routes to public addresses, whose prefix lists have another id in
        # each region. Any address is these two services and ours: no route leads anywhere else.
        self.worker.add_egress_rule(ec2.Peer.any_ipv4(), HTTPS, "DynamoDB, S3 and SQS endpoints")
        if self._own:
            self._add_endpoints(self.vpc)

    def let_through(self, statement: iam.PolicyStatement) -> None:
        """Let calls through the endpoint of their service, if it has one here."""
        (service,) = {action.partition(":")[0] for action in statement.actions}
        if service in self._endpoints:
            self._endpoints[service].add_to_policy(statement)

    def log_flows(self, group: logs.LogGroup, *, role: iam.IRole) -> logs.LogGroup:
        """Write every connection, taken or refused, into `group`; the role must be let write."""
        ec2.CfnFlowLog(
            self,
            "Flows",
            resource_id=self.vpc.vpc_id,
            resource_type="VPC",
            traffic_type="ALL",
            log_group_name=group.log_group_name,
            deliver_logs_permission_arn=role.role_arn,
            # One line in ten minutes for each connection; one a minute is ten times the price.
            max_aggregation_interval=600,
        )
        return group

    def _isolated_vpc(self) -> ec2.Vpc:
        return ec2.Vpc(
            self,
            "Vpc",
            # A serverless cache and a failover need two zones; each more costs an endpoint.
            max_azs=2,
            nat_gateways=0,
            subnet_configuration=[
                ec2.SubnetConfiguration(
                    name="Isolated", subnet_type=ec2.SubnetType.PRIVATE_ISOLATED
                )
            ],
            # Nothing is in the default group; emptying it takes a custom resource's function.
            restrict_default_security_group=False,
        )

    def _existing_vpc(self, vpc_id: str, subnet_ids: Sequence[str]) -> ec2.IVpc:
        vpc = ec2.Vpc.from_vpc_attributes(
            self,
            "Vpc",
            vpc_id=vpc_id,
            # Labels, one to a subnet: nothing is placed by them.
            availability_zones=[f"zone{number}" for number, _ in enumerate(subnet_ids)],
            isolated_subnet_ids=list(subnet_ids),
        )
        Validations.of(vpc).acknowledge(
            Acknowledgment(
                id="@aws-cdk/aws-ec2:noSubnetRouteTableId",
                reason="Nothing is added to its routes.",
            )
        )
        return vpc

    def _add_endpoints(self, vpc: ec2.IVpc) -> None:
        self._endpoints["dynamodb"] = vpc.add_gateway_endpoint(
            "DynamoDb", service=ec2.GatewayVpcEndpointAwsService.DYNAMODB
        )
        self._endpoints["s3"] = vpc.add_gateway_endpoint(
            "S3", service=ec2.GatewayVpcEndpointAwsService.S3
        )
        endpoints = self._security_group("Endpoints", description="The interface endpoints")
        endpoints.add_ingress_rule(self.worker, HTTPS, "The worker functions")
        self._endpoints["sqs"] = vpc.add_interface_endpoint(
            "Sqs",
            service=ec2.InterfaceVpcEndpointAwsService.SQS,
            security_groups=[endpoints],
            # The group alone decides; open would let the whole network in.
            open=False,
        )

    def _security_group(self, construct_id: str, *, description: str) -> ec2.SecurityGroup:
        return ec2.SecurityGroup(
            self, construct_id, vpc=self.vpc, description=description, allow_all_outbound=False
        )
