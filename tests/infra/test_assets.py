"""What is packed for the functions: enough to run them, and nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from infra import bytecode, vendor
from infra.platforms import aws_platform, host_platform
from tests.infra.synthesized import ROOT

if TYPE_CHECKING:
    from pathlib import Path

    from tests.infra.synthesized import Synthesized

pytestmark = pytest.mark.slow

# DESIGN 8: both layers together, unzipped.
LAYERS_BUDGET_BYTES = 40 * 1024 * 1024


def test_both_layers_have_python_at_their_root_and_nothing_beside(every: Synthesized) -> None:
    for name in ("library", "vendor"):
        assert [entry.name for entry in every.assets()[name].iterdir()] == ["python"]


def test_the_library_layer_is_the_library(dev: Synthesized) -> None:
    layer = dev.assets()["library"] / "python"

    assert [entry.name for entry in layer.iterdir()] == ["sekali"]
    assert relative_files(layer / "sekali") == relative_files(
        ROOT / "layers" / "sekali" / "python" / "sekali"
    )


def test_the_function_is_packed_with_its_import_path_and_nothing_else(dev: Synthesized) -> None:
    asset = dev.assets()["handlers"]

    assert [entry.name for entry in asset.iterdir()] == ["handlers"]
    assert relative_files(asset / "handlers") == relative_files(ROOT / "handlers")


def test_no_commands_and_no_bytecode_of_another_python_are_packed(every: Synthesized) -> None:
    runtime = every.worker()["Runtime"]
    tag = f"cpython-{runtime.removeprefix('python').replace('.', '')}"
    for folder in every.assets().values():
        assert not [*folder.glob("*/bin")]
        assert {file.suffixes[-2] for file in folder.rglob("*.pyc")} <= {f".{tag}"}


def test_the_handlers_hold_no_bytecode(every: Synthesized) -> None:
    """They may be edited where they are deployed, and an edit must count."""
    assert not [*every.assets()["handlers"].rglob("__pycache__")]


def test_what_the_lambda_runtime_brings_is_not_packed_a_second_time(dev: Synthesized) -> None:
    packages = {entry.name for entry in (dev.assets()["vendor"] / "python").iterdir()}

    assert {"aws_lambda_powertools", "redis"} <= packages
    assert not packages & {"boto3", "botocore", "s3transfer", "urllib3"}


def test_compiled_packages_are_for_the_functions_platform(dev: Synthesized) -> None:
    compiled = [library.name for library in dev.assets()["vendor"].rglob("*.so")]

    assert compiled
    assert all("cpython-313-aarch64-linux-gnu" in name for name in compiled)


def test_the_hosts_packages_import_here_without_any_other(host: Synthesized) -> None:
    folder = host.assets()["vendor"] / "python"
    program = "import redis, wrapt, jmespath; print(redis.__file__, wrapt.CallableObjectProxy)"

    answer = subprocess.run(
        [sys.executable, "-S", "-s", "-P", "-B", "-c", program],
        env={"PYTHONPATH": str(folder)},
        check=True,
        capture_output=True,
        text=True,
    )

    assert answer.stdout.startswith(str(folder))


def test_the_layers_are_within_their_budget_with_bytecode(dev: Synthesized, tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("library", "vendor")]
    for folder in folders:
        shutil.copytree(dev.assets()[folder.name], folder)
        # Of this Python: that of Lambda need not be here, and theirs are of one size.
        bytecode.add(folder, interpreter=sys.executable)

    sizes = {
        folder.name: sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        for folder in folders
    }

    assert 0 < sum(sizes.values()) <= LAYERS_BUDGET_BYTES, sizes


def test_the_packages_are_named_by_lock_and_platform(tmp_path: Path) -> None:
    lock = tmp_path / "requirements.txt"
    lock.write_text("redis==1\n")
    platform = aws_platform()

    name = vendor.fingerprint(platform, lock=lock)

    assert name == vendor.fingerprint(aws_platform(), lock=lock)
    assert name != vendor.fingerprint(host_platform(), lock=lock)
    assert name != vendor.fingerprint(replace(platform, python="3.14"), lock=lock)
    lock.write_text("redis==2\n")
    assert name != vendor.fingerprint(platform, lock=lock)


def test_packages_that_are_there_are_not_installed_again(tmp_path: Path) -> None:
    lock = tmp_path / "requirements.txt"
    lock.write_text("no such requirement, which pip would refuse\n")
    there = tmp_path / "cache" / vendor.fingerprint(host_platform(), lock=lock)
    there.mkdir(parents=True)

    assert vendor.install(host_platform(), lock=lock, cache=there.parent) == there


def test_a_failed_installation_leaves_nothing_that_a_later_synth_would_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = tmp_path / "requirements.txt"
    lock.write_text(f"redis==8.1.0 --hash=sha256:{'0' * 64}\n")
    # No index: pip fails here as it does without a network, and asks nobody.
    monkeypatch.setenv("PIP_NO_INDEX", "true")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    cache = tmp_path / "cache"

    with pytest.raises(subprocess.CalledProcessError):
        vendor.install(host_platform(), lock=lock, cache=cache)

    assert list(cache.iterdir()) == []


def relative_files(folder: Path) -> set[str]:
    """The files below a folder, without bytecode."""
    return {
        str(file.relative_to(folder))
        for file in folder.rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
