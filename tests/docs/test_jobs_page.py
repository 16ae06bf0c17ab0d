"""docs/jobs.md tells what the code does."""

from __future__ import annotations

import re
from pathlib import Path

from sekali import conditions
from sekali.aws_clients import aws_client
from sekali.large_results import LARGEST_ITEM_RESULT_BYTES

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "jobs.md").read_text(encoding="utf-8")
NOTE = (DOCS / "design" / "durable-record.md").read_text(encoding="utf-8")


def test_the_snippets_of_the_page_run() -> None:
    snippets = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)

    for snippet in snippets:
        exec(compile(snippet, "docs/jobs.md", "exec"), {})  # noqa: S102 - our own page
    assert snippets


def test_the_numbers_of_the_page_are_those_of_the_code() -> None:
    config = aws_client("dynamodb").meta.config

    assert f"A result above {LARGEST_ITEM_RESULT_BYTES // 1024} KB" in PAGE
    assert (
        f"{config.connect_timeout} s to connect, {config.read_timeout} s to answer, three tries"
    ) in PAGE
    assert config.retries["total_max_attempts"] == 3


def test_the_design_note_counts_the_mutants() -> None:
    count = sum(
        len(list(condition.names()))
        for condition in (
            conditions.OUTCOME,
            conditions.CLAIM_NEW,
            conditions.CLAIM_SEEN,
            conditions.GIVE_BACK,
        )
    )

    assert f"{count} mutants" in NOTE
