"""The genuine CDK command, with the environment of a rehearsal."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from infra.rehearsal.servers import ACCOUNT, REGION, Cloud

ROOT: Final = Path(__file__).resolve().parents[2]
# Known to AWS, not to ministack: what the rehearsal cannot deploy.
LEFT_OUT: Final = frozenset({"AWS::EC2::SecurityGroupEgress", "AWS::EC2::SecurityGroupIngress"})
# AWS asks for the right of the single call; ministack has actions of its own for batches.
BATCHES: Final = {
    "sqs:SendMessage": "sqs:SendMessageBatch",
    "sqs:ChangeMessageVisibility": "sqs:ChangeMessageVisibilityBatch",
}
# This machine's architecture and Python: that is where ministack's Lambda runs.
CONTEXT: Final = ("target=host", "timeout_seconds=20", "stage=dev")


class CdkFailed(RuntimeError):
    """A CDK command ended with an error; `output` is what it printed."""

    def __init__(self, command: str, output: str) -> None:
        self.command = command
        self.output = output
        super().__init__(f"cdk {command} failed:\n{output[-8000:]}")


class Cdk:
    """Runs CDK commands against a cloud."""

    def __init__(self, cloud: Cloud, *, folder: Path) -> None:
        self._folder = folder
        self._assembly = folder / "cdk.out"
        bin_folder = Path(sys.executable).parent
        self._command = str(bin_folder / "cdk")
        self._variables = {
            **cloud.variables,
            "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}",
            "CDK_DISABLE_CLI_TELEMETRY": "true",
            "CI": "true",
        }

    def bootstrap(self) -> None:
        """Prepare the account. From outside of the app's folder, or the app would be built."""
        self._run("bootstrap", f"aws://{ACCOUNT}/{REGION}", cwd=self._folder)

    def synthesize(self) -> list[str]:
        """Make the cloud assembly, take out what ministack does not know, and name that."""
        context = [part for one in CONTEXT for part in ("--context", one)]
        self._run("synth", "--quiet", *context, "--output", str(self._assembly), cwd=ROOT)
        (template,) = self._assembly.glob("*.template.json")
        whole = json.loads(template.read_text())
        resources = whole["Resources"]
        dropped = {name for name, one in resources.items() if one["Type"] in LEFT_OUT}
        whole["Resources"] = {
            name: _with_batches(_without(one, dropped))
            for name, one in resources.items()
            if name not in dropped
        }
        template.write_text(json.dumps(whole))
        return sorted(dropped)

    def deploy(self) -> dict[str, str]:
        """Deploy the app; answer the outputs of its stack."""
        outputs = self._folder / "outputs.json"
        self._run_app("deploy", "--require-approval", "never", "--outputs-file", str(outputs))
        (found,) = json.loads(outputs.read_text()).values()
        return dict(found)

    def diff(self) -> None:
        """Fail if what is deployed is not what the app is."""
        self._run_app("diff", "--fail", "--method", "template")

    def destroy(self) -> None:
        """Delete the stack."""
        self._run_app("destroy", "--force")

    def _run_app(self, command: str, *arguments: str) -> None:
        self._run(command, "--app", str(self._assembly), *arguments, cwd=self._folder)

    def _run(self, command: str, *arguments: str, cwd: Path) -> None:
        done = subprocess.run(  # noqa: S603 our own CDK
            [self._command, command, *arguments, "--no-notices", "--no-color"],
            cwd=cwd,
            env=self._variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
            text=True,
        )
        if done.returncode != 0:
            raise CdkFailed(command, done.stdout)


def _without(resource: dict[str, Any], dropped: set[str]) -> dict[str, Any]:  # Any JSON.
    waits = resource.get("DependsOn", [])
    waits = [waits] if isinstance(waits, str) else waits
    rest = [name for name in waits if name not in dropped]
    return {name: value for name, value in resource.items() if name != "DependsOn"} | (
        {"DependsOn": rest} if rest else {}
    )


def _with_batches(resource: dict[str, Any]) -> dict[str, Any]:  # Any JSON.
    if resource["Type"] != "AWS::IAM::Policy":
        return resource
    for statement in resource["Properties"]["PolicyDocument"]["Statement"]:
        actions = statement["Action"]
        actions = [actions] if isinstance(actions, str) else actions
        statement["Action"] = [*actions, *(BATCHES[one] for one in actions if one in BATCHES)]
    return resource
