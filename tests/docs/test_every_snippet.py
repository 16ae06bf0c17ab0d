"""No snippet and no command of the pages is left out: each is run, or checked as far as can be."""

from __future__ import annotations

import ast
import re
import shlex
import sys
from typing import TYPE_CHECKING

import botocore.session
import click
import pytest

from infra.local import demo, serve
from sekali.cli.program import program
from tests.benchmarks import __main__ as benchmarks
from tests.chaos import __main__ as chaos
from tests.docs.clone import ROOT
from tests.docs.commands import Command, blocks, commands
from tests.simulation import __main__ as simulation

if TYPE_CHECKING:
    from argparse import ArgumentParser

# Which test runs the blocks of a language on a page. What is not listed is a failure below.
RUN_BY = {
    ("README.md", "python"): "docs/test_readme.py::test_the_worker_of_the_readme_computes",
    ("README.md", "sh"): "runtime/test_demo.py::test_",
    ("CONTRIBUTING.md", "sh"): "docs/test_every_snippet.py::test_every_make_command",
    ("docs/cache-only.md", "python"): "docs/test_existing_project_pages.py::test_cache_page",
    ("docs/cache.md", "python"): "docs/test_cache_page.py::test_the_snippet_of_the_cache_page",
    ("docs/cli.md", "console"): "cli/test_page.py::test_every_command_prints_what_the_page_says",
    ("docs/cli.md", "sh"): "docs/test_every_snippet.py::test_every_option_of_a_sekali_command",
    ("docs/deploy.md", "bash"): "docs/test_every_snippet.py::test_every_cdk_command",
    ("docs/existing-project.md", "python"): "docs/test_existing_project_pages.py::test_settings",
    ("docs/existing-project.md", "sh"): "runtime/test_wheel.py::test_commands_of_the_pages_install",
    ("docs/idempotency-layer.md", "python"): "docs/test_idempotency_page.py::test_the_snippets",
    ("docs/jobs.md", "python"): "docs/test_jobs_page.py::test_the_snippets_of_the_page_run",
    ("docs/leases.md", "python"): "docs/test_worker_pages.py::test_the_lease_of_the_page_guards",
    ("docs/live-page.md", "sh"): "docs/test_every_snippet.py::test_every_make_command",
    ("docs/lock-only.md", "python"): "docs/test_existing_project_pages.py::test_lock_page",
    ("docs/lock-only.md", "sql"): "docs/test_existing_project_pages.py::test_condition_of_the_sql",
    ("docs/message.md", "java"): "runtime/test_message_examples.py::test_message_of_java",
    ("docs/message.md", "js"): "runtime/test_message_examples.py::test_message_of_node",
    ("docs/message.md", "json"): "docs/test_message_page.py::test_the_bodies_of_the_page",
    ("docs/message.md", "python"): "docs/test_message_page.py::test_the_snippet_about_wrappings",
    ("docs/message.md", "sh"): "runtime/test_message_examples.py::test_message_of_the_aws_command",
    ("docs/own-batch.md", "python"): "docs/test_existing_project_pages.py::test_own_batch",
    ("docs/performance.md", "bash"): "docs/test_every_snippet.py::test_every_make_command",
    ("docs/producer.md", "python"): "docs/test_producer_page.py::test_the_snippets_of_the_page",
    ("docs/pytest.md", "python"): "docs/test_pytest_page.py::test_the_page_is_a_test_file",
    ("docs/pytest.md", "sh"): "runtime/test_wheel.py::test_commands_of_the_pages_install",
    ("docs/scale.md", "bash"): "docs/test_every_snippet.py::test_every_make_command",
    ("docs/cost.md", "bash"): "docs/test_every_snippet.py::test_every_make_command",
    ("docs/queue-worker.md", "python"): "docs/test_queue_worker_page.py::test_the_app_of_the_page",
    ("docs/testing.md", "python"): "docs/test_cache_page.py::test_the_snippets_of_the_testing_page",
    ("docs/tutorial.md", "json"): "docs/test_tutorial.py::test_every_step_of_the_tutorial",
    ("docs/tutorial.md", "python"): "docs/test_tutorial.py::test_every_step_of_the_tutorial",
    ("docs/tutorial.md", "sh"): "docs/test_tutorial.py::test_every_step_of_the_tutorial",
    ("docs/worker.md", "python"): "docs/test_worker_pages.py::test_the_jobs_of_the_page_run",
}
# Each runbook is followed, command by command, by a rehearsal of its name.
RUN_BY |= {
    (
        f"docs/operations/{page.name}",
        language,
    ): f"operations/test_rehearsals.py::test_{page.stem.replace('-', '_')}"
    for page in (ROOT / "docs" / "operations").glob("[a-z]*.md")
    for language in ("sh", "insights")
}
# Timelines, output, and rules of arithmetic: read, not run.
READ = {"text", ""}
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
TARGETS = set(re.findall(r"^([a-z-]+):", MAKEFILE, flags=re.MULTILINE))
PARSERS: dict[str, ArgumentParser] = {
    "demo": demo._parser(),  # noqa: SLF001  the program's own
    "local": serve._parser(),  # noqa: SLF001
    "chaos": chaos._parser(),  # noqa: SLF001
    "scale": simulation._parser(),  # noqa: SLF001
}
S3_COMMANDS = {"cp", "ls", "rm", "sync"}


def test_every_block_of_a_page_has_a_test_that_runs_it() -> None:
    shown = {(page, language) for page, language, _ in blocks() if language not in READ}

    assert sorted(shown - RUN_BY.keys()) == []
    assert sorted(RUN_BY.keys() - shown) == []


@pytest.mark.parametrize("place", sorted(set(RUN_BY.values())))
def test_the_test_that_runs_a_block_exists(place: str) -> None:
    file, _, name = place.partition("::")
    tree = ast.parse((ROOT / "tests" / file).read_text(encoding="utf-8"))

    names = [node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]

    assert [one for one in names if one.startswith(name)]


@pytest.mark.parametrize("command", commands("make"), ids=lambda one: one.text)
def test_every_make_command_is_a_target_and_its_arguments_are_known(command: Command) -> None:
    _, *words = shlex.split(command.text)
    targets = [word for word in words if "=" not in word]
    given = next((word[5:] for word in words if word.startswith("ARGS=")), "")

    assert targets
    for target in targets:
        assert target in TARGETS, target
        if target in PARSERS:
            PARSERS[target].parse_args(shlex.split(given))


def test_bench_takes_the_arguments_of_its_page(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = [one.text for one in commands("make") if one.text.startswith("make bench ARGS=")]

    for text in shown:
        monkeypatch.setattr(sys, "argv", ["bench", *shlex.split(shlex.split(text)[2][5:])])
        benchmarks._arguments()  # noqa: SLF001  the program's own

    assert len(shown) >= 2


@pytest.mark.parametrize(
    "command",
    [*commands("sekali"), *commands(".venv/bin/sekali")],
    ids=lambda one: f"{one.page} {one.text}",
)
def test_every_option_of_a_sekali_command_is_one_that_it_has(command: Command) -> None:
    words = shlex.split(command.text.replace("…", ""))[1:]
    group = {name for option in program.params for name in option.opts}
    names = [word for word in words if word in program.commands]
    known = set(group) | {"--help", "-h", "--version"}
    found: click.Command = program
    for word in words:
        if isinstance(found, click.Group) and word in found.commands:
            found = found.commands[word]
            known |= {name for option in found.params for name in option.opts}

    assert names or set(words) <= known, command
    options = [word.partition("=")[0] for word in words if word.startswith("-") and word != "-"]
    assert [word for word in options if word not in known] == []


def test_every_cdk_command_is_rehearsed() -> None:
    """`make deploy-local` runs these verbs of the genuine command against a local server."""
    rehearsal = (ROOT / "infra" / "rehearsal" / "cdk.py").read_text(encoding="utf-8")

    verbs = {one.text.split()[1] for one in commands("cdk")}

    assert verbs >= {"bootstrap", "deploy", "diff", "destroy"}
    assert {verb for verb in verbs - {"synth"} if f'"{verb}"' not in rehearsal} == set()


@pytest.mark.parametrize(
    "command",
    # Those of docs/message.md are run, and span lines.
    [one for one in commands("aws") if one.page != "docs/message.md"],
    ids=lambda one: f"{one.page} {one.text}",
)
def test_every_aws_command_names_an_operation_and_its_parameters(command: Command) -> None:
    _, service, operation, *words = shlex.split(command.text)
    options = [word for word in words if word.startswith("--")]
    if service == "s3":
        assert operation in S3_COMMANDS
        assert set(options) <= {"--recursive"}
        return

    # The command line has two of this name: `s3` copies files, `s3api` is the service.
    model = botocore.session.get_session().get_service_model(service.removesuffix("api"))
    by_command = {botocore.xform_name(name, "-"): name for name in model.operation_names}

    shape = model.operation_model(by_command[operation]).input_shape
    assert shape is not None
    known = {"--query"} | {f"--{botocore.xform_name(member, '-')}" for member in shape.members}
    assert [one for one in options if one.replace("--no-", "--") not in known] == []


@pytest.mark.parametrize("command", commands("python"), ids=lambda one: one.text)
def test_every_module_that_is_run_is_there(command: Command) -> None:
    words = shlex.split(command.text)

    assert words[1] == "-m"
    place = ROOT.joinpath(*words[2].split("."))
    assert place.with_suffix(".py").exists() or (place / "__main__.py").exists()
