"""The durable side: the table of results, and the bucket of source data and large results."""

import math
from typing import Final

from aws_cdk import Acknowledgment, Duration, RemovalPolicy, Validations
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

DATA_PREFIX: Final = "flights/"
RESULTS_PREFIX: Final = "results/"
PAYLOADS_PREFIX: Final = "payloads/"
PENDING_INDEX: Final = "pending"
# A message lasts 14 days in its queue and 14 in the dead letter queue, at most (SQS quota).
PAYLOADS_DAYS: Final = 30
_DAY_SECONDS: Final = 86_400


class Storage(Construct):
    """One item per job id in `table`; in `bucket` what is read, and what is too large.

    `pending_arn` is the table's index of the jobs that wait for the shared cache to come back;
    `data_arn`, `payloads_arn` and `results_arn` are the objects of each kind.

    The bucket tells EventBridge of each object that changes, which is how values read from it are
    invalidated. Without an `encryption_key` both are encrypted with keys of AWS.

    Limits: large results expire a day after `record_ttl_seconds`; a record that is kept longer than
    that points at nothing.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        record_ttl_seconds: int,
        keep_data: bool,
        encryption_key: kms.IKey | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        removal_policy = RemovalPolicy.RETAIN if keep_data else RemovalPolicy.DESTROY
        self.table = dynamodb.Table(
            self,
            "Results",
            partition_key=dynamodb.Attribute(name="pk", type=dynamodb.AttributeType.STRING),
            time_to_live_attribute="expires",
            # A queue's load is bursts and silence; provisioned capacity would throttle the first.
            billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
            point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
                point_in_time_recovery_enabled=True
            ),
            encryption_key=encryption_key,
            deletion_protection=keep_data,
            removal_policy=removal_policy,
        )
        # Of the items that have the attribute: those that wait for the cache, none on a good day. A
        # watchman asks it instead of reading through all results, and sees no result in it.
        self.table.add_global_secondary_index(
            index_name=PENDING_INDEX,
            partition_key=dynamodb.Attribute(name="pending", type=dynamodb.AttributeType.NUMBER),
            sort_key=dynamodb.Attribute(name="f", type=dynamodb.AttributeType.NUMBER),
            projection_type=dynamodb.ProjectionType.KEYS_ONLY,
        )
        self.pending_arn = f"{self.table.table_arn}/index/{PENDING_INDEX}"
        # Days are S3's unit, counted from the next midnight.
        results_days = math.ceil(record_ttl_seconds / _DAY_SECONDS) + 1
        self.bucket = s3.Bucket(
            self,
            "Objects",
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            encryption=s3.BucketEncryption.KMS
            if encryption_key
            else s3.BucketEncryption.S3_MANAGED,
            encryption_key=encryption_key,
            # One request to KMS serves many objects.
            bucket_key_enabled=True if encryption_key else None,
            enforce_ssl=True,
            versioned=True,
            removal_policy=removal_policy,
            lifecycle_rules=[
                s3.LifecycleRule(prefix=RESULTS_PREFIX, expiration=Duration.days(results_days)),
                s3.LifecycleRule(prefix=PAYLOADS_PREFIX, expiration=Duration.days(PAYLOADS_DAYS)),
                s3.LifecycleRule(
                    # A version is kept to undo an overwrite by hand, not as an archive.
                    noncurrent_version_expiration=Duration.days(7),
                    abort_incomplete_multipart_upload_after=Duration.days(1),
                ),
            ],
        )
        self.data_arn, self.payloads_arn, self.results_arn = (
            self.bucket.arn_for_objects(f"{prefix}*")
            for prefix in (DATA_PREFIX, PAYLOADS_PREFIX, RESULTS_PREFIX)
        )
        self._notify_event_bridge()
        Validations.of(self.bucket).acknowledge(
            Acknowledgment(
                id="AwsSolutions-S1",
                reason="Only the functions' roles and the account's people reach it; who needs to"
                " know of each read turns on CloudTrail's data events, which name the role.",
            )
        )

    def _notify_event_bridge(self) -> None:
        # The bucket's own argument for it would deploy a function with a managed policy (a custom
        # resource of the CDK); the property does the same.
        resource = self.bucket.node.default_child
        if not isinstance(resource, s3.CfnBucket):
            raise TypeError(f"the bucket's resource is a {type(resource).__name__}")
        resource.notification_configuration = s3.CfnBucket.NotificationConfigurationProperty(
            event_bridge_configuration=s3.CfnBucket.EventBridgeConfigurationProperty(
                event_bridge_enabled=True
            )
        )
