"""CloudFormation's own linter finds nothing in any variant of the template."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.infra.synthesized import Synthesized

pytestmark = pytest.mark.slow

REGIONS = ("eu-west-1", "us-east-1")
# Each with the reason why it does not speak about this template.
IGNORED = {
    # A policy's version and the like, where the CDK writes what both sides understand.
    "W3005": "a DependsOn that a reference already implies: the CDK writes both",
}


def test_cfn_lint_finds_nothing(every_or_own: Synthesized, tmp_path: Path) -> None:
    (template,) = every_or_own.folder.glob("*.template.json")
    command = [str(Path(sys.executable).parent / "cfn-lint"), "--format", "json"]
    command += ["--regions", *REGIONS, "--ignore-checks", *IGNORED, "--template", str(template)]

    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=tmp_path)

    found = [(one["Rule"]["Id"], one["Message"]) for one in json.loads(done.stdout or "[]")]
    assert found == []
    assert done.returncode == 0, done.stderr
