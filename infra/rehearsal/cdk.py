"""The genuine CDK command, with the environment of a rehearsal."""

import json
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Final

from infra.local.processes import Nursery
from infra.local.synthesis import synthesize
from infra.rehearsal import differences
from infra.rehearsal.differences import Differences
from infra.rehearsal.servers import ACCOUNT, REGION, Cloud

_POLL_SECONDS: Final = 0.05
_WITHIN_SECONDS: Final = 300.0
_OUTPUT_KEPT: Final = 8000


class CdkFailed(RuntimeError):
    """A CDK command ended with an error, or not at all; `output` is what it printed."""

    def __init__(self, command: str, output: str) -> None:
        self.command = command
        self.output = output
        super().__init__(f"cdk {command} failed:\n{output[-_OUTPUT_KEPT:]}")


class Cdk:
    """Runs CDK commands against a cloud; none of them outlives the nursery."""

    def __init__(self, nursery: Nursery, cloud: Cloud, *, folder: Path) -> None:
        self._nursery = nursery
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
        self._run("bootstrap", f"aws://{ACCOUNT}/{REGION}")

    def synthesize(self) -> Differences:
        """Take a cloud assembly of the app as it is now; answer what was changed of it."""
        shutil.copytree(synthesize(differences.CONTEXT), self._assembly)
        return differences.apply(self._assembly)

    def deploy(self) -> dict[str, str]:
        """Deploy the app; answer the outputs of its stack."""
        outputs = self._folder / "outputs.json"
        self._run_app("deploy", "--require-approval", "never", "--outputs-file", str(outputs))
        (found,) = json.loads(outputs.read_text()).values()
        return dict(found)

    def diff(self) -> str:
        """Fail if what is deployed is not what the app is; answer the CDK's own last word."""
        lines = self._run_app("diff", "--fail", "--method", "template").splitlines()
        return next((line.strip() for line in reversed(lines) if "differences" in line), "")

    def destroy(self) -> None:
        """Delete the stack."""
        self._run_app("destroy", "--force")

    def _run_app(self, command: str, *arguments: str) -> str:
        return self._run(command, "--app", str(self._assembly), *arguments)

    def _run(self, command: str, *arguments: str) -> str:
        log = self._folder / f"cdk-{command}.log"
        with log.open("wb") as output:
            child = self._nursery.start(
                [self._command, command, *arguments, "--no-notices", "--no-color"],
                variables=self._variables,
                folder=self._folder,
                output=output,
            )
        deadline = time.monotonic() + _WITHIN_SECONDS
        while child.alive and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
        said = log.read_text(errors="replace")
        if child.exit_code != 0:
            raise CdkFailed(command, said)
        return said
