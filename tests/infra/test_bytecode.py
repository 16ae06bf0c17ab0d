"""Bytecode that a cold start reads: beside each module, of the functions' Python, or none."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib.machinery import SourcelessFileLoader
from importlib.util import MAGIC_NUMBER, cache_from_source
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from infra import bytecode
from tests.infra.synthesized import synthesize

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.infra.synthesized import Synthesized

pytestmark = pytest.mark.slow

HERE = f"{sys.version_info[0]}.{sys.version_info[1]}"
ZIP_EPOCH = 315_532_800  # 1980-01-01, the earliest that a zip file can tell.
UNCHECKED_HASH = 1
# What it is compiled from tells itself from what lies beside it later.
SOURCE = "WHAT = 'bytecode'\n\ndef fail():\n    raise ValueError(WHAT)\n"
CHANGED = SOURCE.replace("bytecode", "source!!")


@pytest.fixture
def layer(tmp_path: Path) -> Path:
    """A layer of one module, without bytecode."""
    folder = tmp_path / "build" / "layer"
    (folder / "python").mkdir(parents=True)
    (folder / "python" / "module.py").write_text(SOURCE)
    return folder


@pytest.mark.parametrize(("mode", "read"), [(None, "bytecode"), ("timestamp", "source!!")])
def test_bytecode_is_read_from_a_read_only_folder_whatever_the_times_of_its_files_are(
    layer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str | None, read: str
) -> None:
    """Python's default is the mutant: what it compiles counts only with the times of then."""
    if mode:
        changed = tuple(mode if word == "unchecked-hash" else word for word in bytecode.COMPILE)
        monkeypatch.setattr(bytecode, "COMPILE", changed)
    bytecode.add(layer, interpreter=sys.executable)

    deployed = deploy(layer, tmp_path / "opt", source=CHANGED)

    assert run(deployed, "import module; print(module.WHAT)").stdout.strip() == read


def test_what_is_compiled_is_the_same_wherever_it_is_built(layer: Path, tmp_path: Path) -> None:
    """Only these paths could tell two builds apart, and Lambda's are those that tracebacks show."""
    other = shutil.copytree(layer, tmp_path / "elsewhere")
    for folder in (layer, other):
        bytecode.add(folder, interpreter=sys.executable)

    (here,), (there,) = (compiled(folder) for folder in (layer, other))

    assert here.read_bytes() == there.read_bytes()
    assert path_in(here) == "/opt/python/module.py"


def test_a_traceback_shows_the_path_and_the_line_of_the_layer_that_runs(
    layer: Path, tmp_path: Path
) -> None:
    bytecode.add(layer, interpreter=sys.executable)
    deployed = deploy(layer, tmp_path / "opt", source=SOURCE)

    told = run(deployed, "import module; module.fail()").stderr

    assert f'File "{deployed}/python/module.py", line 4, in fail' in told
    assert "raise ValueError(WHAT)" in told


@pytest.mark.parametrize("spoiled", ["name", "magic number"])
def test_bytecode_of_another_python_is_passed_over(
    layer: Path, tmp_path: Path, spoiled: str
) -> None:
    bytecode.add(layer, interpreter=sys.executable)
    (file,) = compiled(layer)
    if spoiled == "name":
        file.rename(file.with_name("module.cpython-399.pyc"))
    else:
        file.write_bytes(b"\0\0\r\n" + file.read_bytes()[len(MAGIC_NUMBER) :])

    deployed = deploy(layer, tmp_path / "opt", source=CHANGED)

    assert run(deployed, "import module; print(module.WHAT)").stdout.strip() == "source!!"


def test_a_module_that_does_not_compile_keeps_no_other_from_it(layer: Path) -> None:
    (layer / "python" / "for_python_2.py").write_text("print 'nobody imports this'\n")

    bytecode.add(layer, interpreter=sys.executable)

    assert [file.name.partition(".")[0] for file in compiled(layer)] == ["module"]


def test_every_module_of_the_layers_has_bytecode_as_lambda_needs_it(host: Synthesized) -> None:
    for name in ("library", "vendor"):
        folder = host.assets()[name]
        for module in folder.rglob("*.py"):
            file = Path(cache_from_source(str(module)))

            assert file.read_bytes()[:8] == MAGIC_NUMBER + UNCHECKED_HASH.to_bytes(4, "little")
            assert path_in(file) == f"/opt/{module.relative_to(folder)}"


def test_a_function_compiles_nothing_that_a_layer_brings(host: Synthesized) -> None:
    library, vendor = (host.assets()[name] for name in ("library", "vendor"))
    program = f"sys.path.insert(0, {str(vendor / 'python')!r}); import sekali.worker"

    told = run(library, program, "-v").stderr

    imported = set(re.findall(r"^# code object from '?([^'\n]+)'?$", told, re.MULTILINE))
    ours = {path for path in imported if path.startswith((str(library), str(vendor)))}
    assert len(ours) > 100
    assert {Path(path).suffix for path in ours} == {".pyc"}


def test_a_synth_that_finds_no_python_of_the_functions_ships_none_and_says_so_once(
    dev: Synthesized, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bytecode, "interpreter", lambda _python: None)

    stack = synthesize(tmp_path / "cdk.out")

    assert not [file for folder in stack.assets().values() for file in folder.rglob("*.pyc")]
    (told,) = [text for text in infos(stack) if "bytecode" in text]
    assert "the functions run on Python 3.13" in told
    assert stack.resources.keys() == dev.resources.keys()


def test_a_stack_with_bytecode_says_nothing_of_it(host: Synthesized) -> None:
    assert not [text for text in infos(host) if "bytecode" in text]


def test_a_layer_with_bytecode_and_one_without_are_different_assets_and_each_is_stable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a bucket that has the one would never be given the other."""
    compiled_names = [library_asset(tmp_path / f"compiled-{number}") for number in (1, 2)]

    monkeypatch.setattr(bytecode, "interpreter", lambda _python: None)
    bare_names = [library_asset(tmp_path / f"bare-{number}") for number in (1, 2)]

    assert len(set(compiled_names)) == len(set(bare_names)) == 1
    assert compiled_names != bare_names


def test_an_interpreter_is_this_one_or_the_one_on_the_path() -> None:
    assert bytecode.interpreter(HERE) == sys.executable


@pytest.mark.parametrize(
    ("script", "taken"),
    [
        ("#!/bin/sh\necho cpython-399 final\n", True),
        ("#!/bin/sh\necho cpython-399 alpha\n", False),
        (f'#!/bin/sh\nexec "{sys.executable}" "$@"\n', False),
        ("#!/bin/sh\necho no such version >&2; exit 127\n", False),
        ("\x7fELF of another machine", False),
    ],
    ids=["right", "a pre-release", "another version", "a stub that fails", "no program"],
)
def test_what_is_called_so_on_the_path_is_asked_what_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, *, taken: bool
) -> None:
    found = tmp_path / "python3.99"
    found.write_text(script)
    found.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))

    assert bytecode.interpreter("3.99") == (str(found) if taken else None)


def test_no_interpreter_is_found_where_the_path_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    assert bytecode.interpreter("3.99") is None


def deploy(layer: Path, folder: Path, *, source: str) -> Path:
    """Copy a layer as a zip file would: its files are of 1980 and may not be written."""
    shutil.copytree(layer, folder)
    (folder / "python" / "module.py").write_text(source)
    for path in (*folder.rglob("*"), folder):
        os.utime(path, (ZIP_EPOCH, ZIP_EPOCH))
        path.chmod(0o555)
    return folder


def run(layer: Path, program: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run a program that imports from a layer, and from this environment what Lambda brings."""
    program = f"import sys; sys.path.insert(0, {str(layer / 'python')!r}); {program}"
    return subprocess.run(
        [sys.executable, "-I", "-B", *options, "-c", program],
        check=False,
        capture_output=True,
        text=True,
    )


def compiled(layer: Path) -> list[Path]:
    return sorted(layer.rglob("*.pyc"))


def path_in(file: Path) -> str:
    """The path that the bytecode itself holds; an import of the source's module corrects it."""
    code = SourcelessFileLoader("module", str(file)).get_code("module")
    assert code
    return code.co_filename


def infos(stack: Synthesized) -> Iterator[str]:
    """Every text that the synth tells about the stack."""
    for file in stack.folder.glob("*.metadata.json"):
        yield from re.findall(r'"data": "((?:[^"\\]|\\.)*)"', file.read_text())


def library_asset(folder: Path) -> str:
    """Pack the library's layer in an app of its own, and name its asset."""
    from aws_cdk import App, Stack
    from aws_cdk import aws_lambda as lambda_

    from infra.layers import library_layer

    app = App(outdir=str(folder))
    library_layer(
        Stack(app, "Alone"),
        "Library",
        runtime=lambda_.Runtime(f"python{HERE}"),
        architecture=lambda_.Architecture.ARM_64,
    )
    app.synth()
    (asset,) = folder.glob("asset.*")
    return asset.name
