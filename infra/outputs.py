"""What a deployment tells whoever made it, and the `sekali` command."""

from typing import TYPE_CHECKING

from aws_cdk import CfnOutput

from infra.event_function import EventFunction
from infra.parts import construct_id

if TYPE_CHECKING:
    from infra.stack import SekaliStack


def tell(stack: "SekaliStack", *, recover: EventFunction | None) -> None:
    """Add the outputs; those of a second worker begin with its name."""
    for number, (name, worker) in enumerate(stack.workers.items()):
        prefix = construct_id(name) if number else ""
        for output, value in (
            ("QueueUrl", worker.queue.queue_url),
            ("DeadLetterQueueUrl", worker.dead_letters.queue_url),
            ("FunctionName", worker.function.function_name),
        ):
            CfnOutput(stack, f"{prefix}{output}", value=value)
    for output, value in (
        ("TableName", stack.storage.table.table_name),
        ("BucketName", stack.storage.bucket.bucket_name),
        ("SecurityGroupId", stack.network.worker.security_group_id),
        ("AlarmTopicArn", stack.monitoring.topic.topic_arn),
    ):
        CfnOutput(stack, output, value=value)
    if recover:
        # The command asks it what only somebody inside the network can tell.
        CfnOutput(stack, "RecoverFunctionName", value=recover.function.function_name)
