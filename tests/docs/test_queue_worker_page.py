"""docs/queue-worker.md shows a whole CDK app: it is synthesized as it stands."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from infra.queue_numbers import QueueNumbers, QueueRuleBroken
from infra.rules import RULES, check

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "queue-worker.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_app_of_the_page_is_a_template_that_keeps_every_rule(tmp_path: Path) -> None:
    (app,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    bin_folder = str(Path(sys.prefix, "bin"))
    environment = {
        "PATH": os.pathsep.join([bin_folder, os.environ["PATH"]]),
        "CDK_OUTDIR": str(tmp_path / "cdk.out"),
        "PYTHONPATH": str(ROOT),
    }

    done = subprocess.run(
        [sys.executable, "-c", app],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    template = json.loads((tmp_path / "cdk.out" / "Shop.template.json").read_text())
    kinds = [one["Type"] for one in template["Resources"].values()]
    assert check(template) == []
    assert kinds.count("AWS::SQS::Queue") == 2
    assert kinds.count("AWS::Lambda::EventSourceMapping") == 1
    assert kinds.count("AWS::Lambda::LayerVersion") == 2
    # It was judged without being asked to.
    assert (tmp_path / "cdk.out" / "validation-report.json").exists()


def test_each_rule_stands_on_the_page_and_each_on_the_page_is_a_rule() -> None:
    rows = re.findall(r"^\| ([a-z, -]+) \|", PAGE, flags=re.MULTILINE)
    named = {name for row in rows[1:] for name in row.split(", ")}

    assert named == {rule.__name__.replace("_", "-") for rule in RULES}


def test_the_error_on_the_page_is_the_error_of_the_construct() -> None:
    with pytest.raises(QueueRuleBroken) as broken:
        QueueNumbers(
            timeout_seconds=30,
            batch_size=10,
            batching_window_seconds=0,
            max_concurrency=1,
            reserved_concurrency=None,
            retention_seconds=345_600,
            record_ttl_seconds=1_296_000,
            lease_seconds=12,
            max_attempts=3,
        )

    assert f"```text\n{broken.value}\n```" in PAGE
