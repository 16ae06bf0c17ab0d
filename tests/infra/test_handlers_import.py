"""Each function's handler is found by the genuine runtime client, in what is deployed alone."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from infra.local import runtime_folder
from tests.infra.synthesized import FUNCTION, resolved

if TYPE_CHECKING:
    from pathlib import Path

    from tests.infra.synthesized import Synthesized

pytestmark = pytest.mark.slow

# What the client does when an environment starts, before it asks for the first event.
PROGRAM = """
import json, sys
from awslambdaric.bootstrap import _get_handler
handler = _get_handler(sys.argv[1])
module = sys.modules[handler.__module__.partition(".")[0]]
print(json.dumps({"callable": callable(handler), "sekali": sys.modules["sekali"].__file__}))
"""


def test_each_handler_imports_from_its_own_assets(host: Synthesized, tmp_path: Path) -> None:
    runtime = runtime_folder.build(tmp_path / "runtime")
    assets = host.assets()
    layers = [assets[name] / "python" for name in ("library", "vendor")]
    for function in host.of(FUNCTION).values():
        variables = {
            name: resolved(value, host.resources)
            for name, value in function["Environment"]["Variables"].items()
        }
        code = host.asset(function["Code"]["S3Key"])

        done = subprocess.run(
            # No site-packages: what is not deployed and not Lambda's is not there.
            [sys.executable, "-S", "-s", "-P", "-B", "-c", PROGRAM, function["Handler"]],
            env={
                **variables,
                "AWS_REGION": "eu-west-1",
                "PYTHONPATH": ":".join(str(one) for one in [code, *layers, runtime]),
            },
            check=False,
            capture_output=True,
            text=True,
            cwd=tmp_path,
        )

        assert done.returncode == 0, done.stderr
        answer = json.loads(done.stdout.splitlines()[-1])
        assert answer["callable"]
        assert answer["sekali"].startswith(str(layers[0]))
