"""docs/deploy.md says what the app does with a context, and shows the error that it raises."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from infra.config import CHOICES, DEFAULT_NUMBERS, STAGES, TEXTS, read
from infra.queue_numbers import QueueNumbers, QueueRuleBroken

PAGE = (Path(__file__).parents[2] / "docs" / "deploy.md").read_text(encoding="utf-8")
MORE = {"max_concurrency", "reserved_concurrency", "workers"}
ROWS = dict(re.findall(r"^\| `([a-z_]+)` \| (.+) \|$", PAGE, flags=re.MULTILINE))


def test_each_number_stands_on_the_page_with_its_default_and_its_limits() -> None:
    expected = {
        name: f"{default} | {lowest} to {highest}"
        for name, (default, lowest, highest) in DEFAULT_NUMBERS.items()
    }

    assert {name: ROWS[name] for name in expected} == expected


def test_the_choices_and_what_follows_from_the_stage_stand_on_the_page() -> None:
    dev, prod = (read({"stage": stage}) for stage in STAGES)

    for name, choices in CHOICES.items():
        assert ROWS[name] == f"`{choices[0]}` | {', '.join(choices)}"
    concurrency = f"{dev.max_concurrency} in dev, {prod.max_concurrency} in prod"
    assert ROWS["max_concurrency"] == f"{concurrency} | 2 to 1000"


def test_every_name_on_the_page_is_one_that_the_app_reads() -> None:
    settings = CHOICES.keys() | DEFAULT_NUMBERS.keys()
    for name in settings | MORE:
        row = ROWS[name]
        first = re.findall(r"[a-z0-9-]+", row.replace("none in dev", "0"))[0]

        read({name: first})

    assert ROWS.keys() == settings | TEXTS.keys() | MORE | {"runbooks_url"}


def test_each_sum_on_the_page_is_right() -> None:
    sums = re.findall(r"([0-9][0-9,.× ]*) = ([0-9][0-9,.]*[0-9])", PAGE, flags=re.MULTILINE)

    assert len(sums) >= 4
    for terms, total in sums:
        product = math.prod(float(one.replace(",", "")) for one in terms.split(" × "))
        assert abs(product - float(total.replace(",", ""))) < 0.006, (terms, total)


def test_the_error_on_the_page_is_the_error_of_the_app() -> None:
    config = read({"batch_size": "500"})

    with pytest.raises(QueueRuleBroken) as broken:
        QueueNumbers(
            timeout_seconds=config.timeout_seconds,
            batch_size=config.batch_size,
            batching_window_seconds=config.batching_window_seconds,
            max_concurrency=config.max_concurrency,
            reserved_concurrency=config.reserved_concurrency,
            retention_seconds=config.retention_seconds,
            record_ttl_seconds=config.record_ttl_seconds,
            lease_seconds=config.lease_seconds,
            max_attempts=config.max_attempts,
        )

    assert f"```text\n{broken.value}\n```" in PAGE


def test_each_setting_has_a_reason_beside_its_row() -> None:
    prose = "\n".join(line for line in PAGE.splitlines() if not line.startswith("|"))

    assert [name for name in ROWS if f"`{name}" not in prose] == []
