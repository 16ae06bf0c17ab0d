"""`make local` tells where each queue is, and a signal ends it all; test_tutorial.py sends jobs."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.runtime.toy import write_assembly

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

ROOT = Path(__file__).parents[2]
PROGRAM = """
import sys
from pathlib import Path
from infra.local import serve
serve.synthesize = lambda _: Path(sys.argv[1])
sys.exit(serve.main(sys.argv[2:]))
"""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """The program on a stack that needs no synth."""
    assembly = write_assembly(tmp_path / "cdk.out")
    with subprocess.Popen(
        # As a shell starts what runs in its background: Ctrl-C is ignored.
        [
            *("/bin/sh", "-c", "trap '' INT; exec \"$@\"", "sh"),
            *(sys.executable, "-c", PROGRAM, str(assembly)),
        ],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        yield process
        process.kill()


def test_it_stays_until_a_signal_and_tells_where_the_queues_are(
    served: subprocess.Popen[str],
) -> None:
    assert served.stdout is not None
    told = []
    for line in served.stdout:
        told.append(line.strip())
        if line.startswith("Ctrl-C"):
            break

    served.send_signal(signal.SIGINT)
    rest = served.stdout.read()

    assert served.wait(timeout=60) == 0
    assert "Stopped; nothing is left behind." in rest
    assert any("http://127.0.0.1:" in line for line in told)
