"""A context value that nobody meant does not reach a template."""

from __future__ import annotations

import platform
import sys

import pytest

from infra.config import DEFAULT_NUMBERS, STAGES, ConfigInvalid, read


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("stage", "production"),
        ("target", "lambda"),
        ("cache", "memcached"),
        ("fifo", "yes"),
        ("timeout_seconds", "0"),
        ("timeout_seconds", "1.5"),
        ("timeout_seconds", ""),
        ("timeout_seconds", None),
        ("batch_size", "-1"),
        ("max_concurrency", "1"),
        ("timout_seconds", "10"),
    ],
)
def test_a_wrong_value_stops_the_synth_with_its_name_and_its_rule(name: str, value: str) -> None:
    with pytest.raises(ConfigInvalid) as invalid:
        read({name: value})

    assert str(invalid.value).startswith(f"{name} must be ")
    assert str(invalid.value).endswith(f", got {value!r}")


def test_names_of_the_cdk_itself_are_not_ours_to_judge() -> None:
    context = {"@aws-cdk/core:checkSecretUsage": True, "acknowledged-issue-numbers": [1]}

    assert read(context) == read({})


def test_numbers_may_come_as_text_from_the_command_line_or_as_numbers_from_a_file() -> None:
    assert read({"timeout_seconds": "10"}) == read({"timeout_seconds": 10})
    assert read({"fifo": "true"}) == read({"fifo": True})


@pytest.mark.parametrize("name", DEFAULT_NUMBERS)
def test_both_ends_of_a_range_are_allowed_and_nothing_beyond(name: str) -> None:
    _, lowest, highest = DEFAULT_NUMBERS[name]

    assert getattr(read({name: lowest}), name) == lowest
    assert getattr(read({name: highest}), name) == highest
    with pytest.raises(ConfigInvalid):
        read({name: highest + 1})


@pytest.mark.parametrize("stage", STAGES)
def test_concurrency_is_reserved_where_the_stage_says_so_and_follows_the_cap(stage: str) -> None:
    config = read({"stage": stage, "max_concurrency": "7"})

    assert config.reserved_concurrency == (7 if stage == "prod" else None)


def test_reserved_concurrency_of_zero_means_none() -> None:
    assert read({"stage": "prod", "reserved_concurrency": "0"}).reserved_concurrency is None


def test_the_host_is_this_machine() -> None:
    config = read({"target": "host"})

    assert config.platform.python == f"{sys.version_info.major}.{sys.version_info.minor}"
    assert (config.platform.architecture == "arm64") == (platform.machine() in {"arm64", "aarch64"})


def test_a_python_that_lambda_does_not_have_cannot_be_the_host(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 99, 0))

    with pytest.raises(ConfigInvalid, match=r"3\.11 to 3\.14"):
        read({"target": "host"})
