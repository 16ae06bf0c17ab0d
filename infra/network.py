"""The private network of the worker and the cache: no way in, and out only to what it names."""

from aws_cdk import aws_ec2 as ec2
from constructs import Construct

HTTPS = ec2.Port.tcp(443)
# 6379 is the cache; 6380 is where a serverless cache answers reads from a replica.
CACHE_PORTS = ec2.Port.tcp_range(6379, 6380)


class Network(Construct):
    """Isolated subnets in two zones, the AWS services they reach, and who may talk to whom.

    There is no internet gateway and no NAT (32 USD a month and zone, and a way out): DynamoDB and
    S3 come through gateway endpoints, which cost nothing, and SQS through an interface endpoint
    (about 7 USD a month and zone), because the worker itself sends delayed copies and dead
    letters. Lambda delivers messages, logs and traces outside of this network.
    """

    def __init__(self, scope: Construct, construct_id: str) -> None:
        super().__init__(scope, construct_id)
        self.vpc = ec2.Vpc(
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
        self.worker = self._security_group("Worker", description="The worker functions")
        self.cache = self._security_group("Cache", description="The shared cache")
        endpoints = self._security_group("Endpoints", description="The interface endpoints")

        self.dynamodb = self.vpc.add_gateway_endpoint(
            "DynamoDb", service=ec2.GatewayVpcEndpointAwsService.DYNAMODB
        )
        self.s3 = self.vpc.add_gateway_endpoint("S3", service=ec2.GatewayVpcEndpointAwsService.S3)
        self.sqs = self.vpc.add_interface_endpoint(
            "Sqs",
            service=ec2.InterfaceVpcEndpointAwsService.SQS,
            security_groups=[endpoints],
            # The group alone decides; open would let the whole network in.
            open=False,
        )

        self.worker.add_egress_rule(self.cache, CACHE_PORTS, "The shared cache")
        self.cache.add_ingress_rule(self.worker, CACHE_PORTS, "The worker functions")
        # Gateway endpoints are routes to public addresses, whose prefix lists have another id in
        # each region. Any address is these two services and ours: no route leads anywhere else.
        self.worker.add_egress_rule(ec2.Peer.any_ipv4(), HTTPS, "DynamoDB, S3 and SQS endpoints")
        endpoints.add_ingress_rule(self.worker, HTTPS, "The worker functions")

    def _security_group(self, construct_id: str, *, description: str) -> ec2.SecurityGroup:
        return ec2.SecurityGroup(
            self, construct_id, vpc=self.vpc, description=description, allow_all_outbound=False
        )
