"""What set-up may rely on: hashed locks that name no index."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOCKS = {
    path.relative_to(ROOT).as_posix(): path
    for folder in (".", "infra/local", "layers/vendor")
    for path in sorted((ROOT / folder).glob("*requirements*.txt"))
}
PIN = re.compile(r"^(?P<name>[a-z0-9-]+)(\[[a-z,]+\])?==(?P<version>\S+)", re.MULTILINE)


def pins(lock: str) -> dict[str, str]:
    return {pin["name"]: pin["version"] for pin in PIN.finditer(LOCKS[lock].read_text())}


def test_every_environment_has_its_lock() -> None:
    assert set(LOCKS) == {
        "requirements-demo.txt",
        "requirements-dev.txt",
        "requirements-setup.txt",
        "infra/local/requirements.txt",
        "infra/local/data-requirements.txt",
        "layers/vendor/requirements.txt",
    }


@pytest.mark.parametrize("lock", LOCKS)
def test_every_pin_of_a_lock_carries_a_hash(lock: str) -> None:
    text = re.sub(r"\\\n\s*", "", LOCKS[lock].read_text())
    requirements = re.findall(r"^[^#\s].*$", text, re.MULTILINE)

    unhashed = [line for line in requirements if "==" not in line or "--hash=sha256:" not in line]

    assert requirements
    assert unhashed == []


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_names_no_index_and_no_address(lock: str) -> None:
    text = LOCKS[lock].read_text()

    assert "://" not in text
    assert "index-url" not in text
    assert "find-links" not in text


def test_the_demo_and_the_layer_run_what_the_tests_ran() -> None:
    tested = pins("requirements-dev.txt")

    for lock in ("requirements-demo.txt", "layers/vendor/requirements.txt"):
        differing = {item for item in pins(lock).items() if item not in tested.items()}
        assert differing == set()


def test_the_vendor_layer_holds_nothing_that_the_lambda_runtime_brings() -> None:
    held = set(pins("layers/vendor/requirements.txt"))

    assert held >= {"aws-lambda-powertools", "aws-xray-sdk", "redis"}
    assert held.isdisjoint({"boto3", "botocore", "s3transfer", "python-dateutil", "urllib3"})


def test_the_version_is_a_literal_that_the_build_reads() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    source = (ROOT / project["tool"]["hatch"]["version"]["path"]).read_text()

    assert re.search(r'^__version__ = "\d+\.\d+\.\d+"$', source, re.MULTILINE)
