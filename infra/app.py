"""The CDK app: `cdk synth`, `cdk deploy` run it as `python -m infra.app` (see cdk.json)."""

from aws_cdk import App

from infra.config import read
from infra.stack import SekaliStack


def build(app: App) -> SekaliStack:
    """Add the stack that the app's context asks for."""
    config = read(app.node.get_all_context())
    return SekaliStack(app, f"Sekali-{config.stage_name}", config=config)


def main() -> None:
    """Write the cloud assembly to where the CDK command wants it."""
    app = App()
    build(app)
    app.synth()


if __name__ == "__main__":
    main()
