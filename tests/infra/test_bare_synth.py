"""`make synth` with the genuine CDK command, on a machine that has nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from infra import bytecode, vendor
from infra.platforms import aws_platform, host_platform
from tests.infra.synthesized import ROOT, once, read

if TYPE_CHECKING:
    from tests.infra.synthesized import Synthesized

pytestmark = pytest.mark.slow

# What CDK apps commonly start, and this one must do without.
REFUSED = ("aws", "curl", "docker", "finch", "git", "podman", "wget")
NOWHERE = "http://127.0.0.1:9"
NO_NETWORK = (["unshare", "--net"], ["unshare", "--user", "--map-root-user", "--net"])


@pytest.fixture(scope="session")
def bare_machine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tree after `make synth` without network, credentials, Docker, git and HOME."""
    with once(tmp_path_factory, "a bare machine") as (folder, empty):
        if empty:
            copy_tree(folder)
            synthesize_without_anything(folder)
    return folder


@pytest.fixture(scope="session")
def bare_synth(bare_machine: Path) -> Synthesized:
    """What was written there."""
    return read(bare_machine / "cdk.out")


def test_a_synth_needs_no_network_no_credentials_no_docker_and_no_git(
    bare_machine: Path, bare_synth: Synthesized
) -> None:
    called = [mark.name for mark in (bare_machine / "refused").glob("*-was-called")]

    assert bare_synth.resources
    assert called == []


def test_bytecode_and_another_folder_change_no_asset(
    bare_synth: Synthesized, dev: Synthesized
) -> None:
    """A test run leaves bytecode in the tree; a hash that follows it would deploy it each time."""
    here = {name: folder.name for name, folder in dev.assets().items()}

    there = {name: folder.name for name, folder in bare_synth.assets().items()}

    assert there == here


def test_the_command_writes_what_the_app_writes(bare_synth: Synthesized, dev: Synthesized) -> None:
    for logical_id, resource in dev.resources.items():
        assert bare_synth.resources[logical_id]["Properties"] == resource["Properties"]
    assert bare_synth.resources.keys() == dev.resources.keys()


def copy_tree(folder: Path) -> None:
    """Make a set-up tree elsewhere: no git repository, spaces in its path, bytecode everywhere."""
    folder.mkdir()
    for name in ("cdk.json", "Makefile"):
        shutil.copy2(ROOT / name, folder / name)
    for name in ("infra", "handlers", "layers"):
        shutil.copytree(ROOT / name, folder / name)
    for module in [*folder.glob("handlers/**/*.py"), *folder.glob("layers/**/*.py")]:
        bytecode = module.parent / "__pycache__"
        bytecode.mkdir(exist_ok=True)
        (bytecode / f"{module.stem}.cpython-399.pyc").write_bytes(os.urandom(16))
    (folder / ".venv").symlink_to(sys.prefix)
    (folder / ".cache").mkdir()
    (folder / ".cache" / "vendor").symlink_to(vendor.CACHE)
    for platform in (aws_platform(), host_platform()):
        vendor.install(platform)


def synthesize_without_anything(folder: Path) -> None:
    """Run `make synth` where each forbidden command fails and leaves its name behind."""
    refused = folder / "refused"
    refused.mkdir()
    for name in REFUSED:
        command = refused / name
        command.write_text(f'#!/bin/sh\ntouch "{refused}/{name}-was-called"\nexit 127\n')
        command.chmod(0o755)
    subprocess.run(
        # -o: a copied stamp is older than the files that git has just written.
        # A user's cdk.json may name workers of their own.
        [
            *(*no_network(), "make", "-o", ".venv/.demo", "-o", ".venv/.vendor"),
            *("synth", "ARGS=--context workers=reports"),
        ],
        cwd=folder,
        env={
            "PATH": os.pathsep.join([str(refused), "/usr/bin", "/bin", *compilers()]),
            # Where the machine does not let us take the network away, it leads nowhere.
            "HTTP_PROXY": NOWHERE,
            "HTTPS_PROXY": NOWHERE,
            "http_proxy": NOWHERE,
            "https_proxy": NOWHERE,
            "PIP_NO_INDEX": "true",
            "UV_OFFLINE": "true",
        },
        check=True,
        timeout=100,
    )


def compilers() -> list[str]:
    """Where a Python lies that compiles for Lambda: with it, a layer is another asset."""
    found = bytecode.interpreter(aws_platform().python)
    return [str(Path(found).parent)] if found else []


def no_network() -> list[str]:
    """The first way to start a command without a network that this machine allows."""
    for way in NO_NETWORK:
        try:
            answer = subprocess.run([*way, "true"], check=False, capture_output=True)
        except FileNotFoundError:
            break
        if answer.returncode == 0:
            return list(way)
    return []
