"""The CDK app: `cdk synth`, `cdk deploy` run it as `python -m infra.app` (see cdk.json)."""

from aws_cdk import Acknowledgment, App, CfnElement, Validations

from infra.config import Config, read
from infra.stack import SekaliStack
from infra.storage import DATA_PREFIX, PAYLOADS_PREFIX, RESULTS_PREFIX


def build(app: App) -> SekaliStack:
    """Add the stack that the app's context asks for, and what its template must pass."""
    config = read(app.node.get_all_context())
    stack = SekaliStack(app, f"Sekali-{config.stage_name}", config=config)
    check(app, stack, config)
    return stack


def check(app: App, stack: SekaliStack, config: Config) -> None:
    """Stop the synth where the template breaks a rule of the packs of cdk-nag.

    Ours come with the `QueueWorker`. The packs judge what is deployed; a stack for this machine
    (`target=host`) is not.
    """
    if not config.platform.deployed:
        return
    from cdk_nag import AwsSolutionsChecks, ServerlessChecks

    Validations.of(app).add_plugins(AwsSolutionsChecks(app), ServerlessChecks(app))
    acknowledge(stack)


def acknowledge(stack: SekaliStack) -> None:
    """Answer what the packs find in the stack as a whole; a construct answers for itself."""
    resource = stack.storage.bucket.node.default_child
    bucket = stack.get_logical_id(resource) if isinstance(resource, CfnElement) else ""
    runtime = "It is 3.13, a current runtime, which the tests run on; a newer one is a change of"
    Validations.of(stack).acknowledge(
        Acknowledgment(id="AwsSolutions-L1", reason=f"{runtime} two numbers in infra/config.py."),
        Acknowledgment(
            id="Serverless-LambdaLatestVersion",
            reason=f"{runtime} two numbers in infra/config.py.",
        ),
        Acknowledgment(
            id="AwsSolutions-IAM5[Resource::*]",
            reason="Traces and network interfaces know no resources; code is denied the second.",
        ),
        *(
            Acknowledgment(
                id=f"AwsSolutions-IAM5[Resource::<{bucket}.Arn>/{prefix}*]",
                reason="Objects are named by what was asked for; the prefix is the bound.",
            )
            for prefix in (DATA_PREFIX, PAYLOADS_PREFIX, RESULTS_PREFIX)
        ),
    )


def main() -> None:
    """Write the cloud assembly to where the CDK command wants it."""
    app = App()
    build(app)
    app.synth()


if __name__ == "__main__":
    main()
