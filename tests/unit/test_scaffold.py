"""What `sekali new-worker` writes; tests/docs/test_tutorial.py tests, synthesizes and runs it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sekali import SettingInvalid
from sekali.cli.program import main
from sekali.scaffold import FileExists, new_worker

ROOT = Path(__file__).parents[2]


def test_nothing_is_written_over(tmp_path: Path) -> None:
    new_worker("parcels", root=tmp_path)
    module = tmp_path / "handlers" / "parcels.py"
    module.write_text("mine\n")

    with pytest.raises(FileExists, match="nothing was written"):
        new_worker("parcels", root=tmp_path)

    assert module.read_text() == "mine\n"


@pytest.mark.parametrize("name", ["", "Parcels", "a-b", "1st", "class", "../x", "a" * 33])
def test_name_that_no_module_can_have_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(SettingInvalid, match="NAME must be a module's name"):
        new_worker(name, root=tmp_path)

    assert list(tmp_path.iterdir()) == []


def test_what_is_written_passes_the_linter(tmp_path: Path) -> None:
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    # By its folder the linter knows the library for our own.
    (tmp_path / "layers" / "sekali" / "python" / "sekali").mkdir(parents=True)

    written = new_worker("cold_storage", root=tmp_path)

    assert [path.name for path in written.files] == ["cold_storage.py", "test_cold_storage.py"]
    for command in (["check", "--no-cache"], ["format", "--check", "--no-cache"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "."],
            cwd=tmp_path,
            check=False,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout


def test_command_writes_into_the_folder_it_is_called_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    first = main(["new-worker", "parcels", "--json"])
    told = json.loads(capsys.readouterr().out)
    second = main(["new-worker", "parcels"])

    assert (first, second) == (0, 1)
    assert told["files"] == ["handlers/parcels.py", "tests/handlers/test_parcels.py"]
    assert '"workers": "reports,parcels"' in told["lines"]
    assert "exists; nothing was written" in capsys.readouterr().err
