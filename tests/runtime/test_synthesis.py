"""One synth per state of the sources, in a folder that is complete or absent."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest

from infra.local import synthesis
from infra.local.synthesis import SynthesisFailed, fingerprint, synthesize

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of few files, whose `cdk` writes an assembly of one asset or fails."""
    root = tmp_path / "project"
    (root / "infra" / "local").mkdir(parents=True)
    (root / "cdk.json").write_text("{}")
    (root / "infra" / "app.py").write_text("app")

    def write(context: object, output: Path) -> None:
        del context
        if "broken" in (root / "infra" / "app.py").read_text():
            raise SynthesisFailed("the app is broken")
        (output / "asset.1").mkdir(parents=True)
        (output / "asset.1" / "module.py").write_text("VALUE = 1")

    monkeypatch.setattr(synthesis, "ROOT", root)
    monkeypatch.setattr(synthesis, "_synth", write)
    return root


def test_the_same_sources_are_synthesized_once(sources: Path, tmp_path: Path) -> None:
    first = synthesize(cache=tmp_path / "cache")
    (first / "mark").touch()

    again = synthesize(cache=tmp_path / "cache")

    assert again == first
    assert (again / "mark").exists()
    assert sources.exists()


def test_a_changed_source_or_context_is_another_state(sources: Path) -> None:
    before = fingerprint({"target": "host"})

    (sources / "infra" / "app.py").write_text("app, changed")

    assert fingerprint({"target": "host"}) != before
    assert fingerprint({"target": "aws"}) != fingerprint({"target": "host"})


def test_what_a_synth_does_not_read_changes_nothing(sources: Path) -> None:
    before = fingerprint()

    (sources / "infra" / "local" / "demo.py").write_text("program")
    (sources / "infra" / "__pycache__").mkdir()
    (sources / "infra" / "__pycache__" / "app.pyc").write_text("bytecode")

    assert fingerprint() == before


def test_a_synth_that_fails_leaves_nothing(sources: Path, tmp_path: Path) -> None:
    (sources / "infra" / "app.py").write_text("broken")

    with pytest.raises(SynthesisFailed, match="the app is broken"):
        synthesize(cache=tmp_path / "cache")

    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["lock"]


def test_assemblies_that_nobody_ran_for_a_day_are_removed(sources: Path, tmp_path: Path) -> None:
    old = synthesize(cache=tmp_path / "cache")
    two_days_ago = time.time() - 2 * 24 * 3600
    os.utime(old, (two_days_ago, two_days_ago))
    (sources / "infra" / "app.py").write_text("changed")

    new = synthesize(cache=tmp_path / "cache")

    assert {path.name for path in (tmp_path / "cache").iterdir()} == {"lock", new.name}
