"""The package as others get it: built, unpacked into an empty environment, and used there."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

import sekali
from sekali import testing
from tests.docs.commands import commands

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
LIBRARY = ROOT / "layers" / "sekali" / "python" / "sekali"
# What a caller gets in the hand without naming it.
HANDED_OUT = {
    "sekali.leases.HeldLease",
    "sekali.sending.Sent",
    "sekali.sending.Unsent",
    "sekali.tiered.Tiered",
}
USERS_TEST = """
from sekali import Worker

worker = Worker("users")


@worker.job("double")
def double(job):
    return 2 * job.payload["n"]


def test_mine(sekali_jobs):
    job_id = sekali_jobs.send("double", {"n": 21})
    sekali_jobs.run(worker.handler)
    assert sekali_jobs.result("double", job_id) == 42
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    folder = tmp_path_factory.mktemp("dist")
    run([sys.executable, "-m", "hatchling", "build", "--target", "wheel", "-d", str(folder)], ROOT)
    (built,) = folder.glob("*.whl")
    return zipfile.ZipFile(built)


@pytest.fixture(scope="module")
def environment(wheel: zipfile.ZipFile, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the wheel in it; what it depends on is borrowed from this one."""
    folder = tmp_path_factory.mktemp("environment")
    run([sys.executable, "-m", "venv", "--without-pip", str(folder)], ROOT)
    (packages,) = folder.glob("lib/python*/site-packages")
    wheel.extractall(packages)
    (packages / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder


def run(command: list[str], folder: Path, **variables: str) -> str:
    done = subprocess.run(
        command,
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder), **variables},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_wheel_holds_the_library_its_scripts_and_its_types_and_nothing_else(
    wheel: zipfile.ZipFile,
) -> None:
    expected = {
        f"sekali/{path.relative_to(LIBRARY)}"
        for path in LIBRARY.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }

    packed = {name for name in wheel.namelist() if ".dist-info/" not in name}

    assert packed == expected
    assert "sekali/py.typed" in packed
    assert len([name for name in packed if name.endswith(".lua")]) >= 10


def test_wheel_says_what_it_offers(wheel: zipfile.ZipFile) -> None:
    (place,) = {name.split("/")[0] for name in wheel.namelist() if ".dist-info/" in name}

    points = wheel.read(f"{place}/entry_points.txt").decode()
    metadata = wheel.read(f"{place}/METADATA").decode()

    assert "sekali = sekali.cli:main" in points
    assert "sekali.pytest_plugin = sekali.pytest_plugin" in points
    assert f"Version: {sekali.__version__}" in metadata
    for extra in ("cli", "testing"):
        assert f"Provides-Extra: {extra}" in metadata


def test_users_test_finds_the_fixtures_in_an_empty_folder(
    environment: Path, tmp_path: Path
) -> None:
    (tmp_path / "test_users.py").write_text(USERS_TEST)
    python = str(environment / "bin" / "python")

    where = run([python, "-c", "import sekali; print(sekali.__file__)"], tmp_path)
    told = run([python, "-m", "pytest", "-q", "-p", "no:valkey"], tmp_path)

    assert where.startswith(str(environment))
    assert "1 passed" in told


@pytest.mark.package
def test_pyright_knows_the_type_of_every_public_name(environment: Path, tmp_path: Path) -> None:
    path = f"{environment / 'bin'}{os.pathsep}{os.environ['PATH']}"
    command = [str(Path(sys.executable).parent / "basedpyright"), "--verifytypes", "sekali"]

    done = subprocess.run(
        [*command, "--ignoreexternal", "--outputjson"],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        check=False,
        capture_output=True,
        text=True,
    )

    symbols = json.loads(done.stdout)["typeCompleteness"]["symbols"]
    ours = [one for one in symbols if is_public(one["name"])]
    assert len(ours) > 300
    assert [one["name"] for one in ours if not one["isTypeKnown"]] == []


@pytest.mark.package
def test_commands_of_the_pages_install_the_package(tmp_path: Path) -> None:
    """Offline: what the package depends on is there already, borrowed."""
    (tmp_path / "sekali").symlink_to(ROOT)
    environment, project = tmp_path / "environment", tmp_path / "project"
    project.mkdir()
    run([sys.executable, "-m", "venv", str(environment)], tmp_path)
    (packages,) = environment.glob("lib/python*/site-packages")
    (packages / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    shown = [one.text for one in commands("pip") if "--target" not in one.text]
    path = f"{environment / 'bin'}{os.pathsep}{os.environ['PATH']}"
    # pip's own spelling: false switches the isolation off.
    offline = {"PIP_NO_INDEX": "1", "PIP_NO_BUILD_ISOLATION": "false", "PATH": path}

    for command in dict.fromkeys(shown):
        run(["/bin/bash", "-c", command], project, **offline)

    python = str(environment / "bin" / "python")
    found = run([python, "-c", "import sekali; print(sekali.__file__)"], project)
    assert found.startswith(str(environment))
    assert len(shown) >= 3


def is_public(name: str) -> bool:
    return any(name == public or name.startswith(f"{public}.") for public in PUBLIC)


PUBLIC = HANDED_OUT | {
    f"{getattr(getattr(module, name), '__module__', module.__name__)}.{name}"
    for module in (sekali, testing)
    for name in module.__all__
}


@pytest.mark.package
def test_pyright_agrees_with_mypy_about_a_typed_program(environment: Path, tmp_path: Path) -> None:
    """`make lint` runs mypy on the same file."""
    source = (ROOT / "tests" / "typing" / "public_names.py").read_text()
    # mypy's word for a use that the types must refuse.
    (tmp_path / "program.py").write_text(re.sub(r"type: ignore\[[a-z-]+\]", "type: ignore", source))
    settings = {
        "venvPath": str(environment.parent),
        "venv": environment.name,
        "typeCheckingMode": "standard",
        "enableTypeIgnoreComments": True,
        "reportUnnecessaryTypeIgnoreComment": "error",
    }
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))

    run([str(Path(sys.executable).parent / "basedpyright"), "program.py"], tmp_path)


def test_typed_program_uses_every_public_name() -> None:
    source = (ROOT / "tests" / "typing" / "public_names.py").read_text()

    unused = [
        name
        for module in (sekali, testing)
        for name in module.__all__
        # Imported, or spelt out; and used at least once more.
        if len(re.findall(rf"\b{name}\b", source)) < (1 if f"sekali.{name}" in source else 2)
    ]
    assert unused == []
