"""A context value that nobody meant does not reach a template."""

from __future__ import annotations

import platform
import sys
from typing import TYPE_CHECKING

import pytest

from infra.config import DEFAULT_NUMBERS, STAGES, available_handlers, read
from infra.invalid import ConfigInvalid

if TYPE_CHECKING:
    from pathlib import Path


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
        ("max_concurrency", "0"),
        ("cache_shards", "501"),
        ("cache_eviction", "allkeys-lru"),
        ("snap_start", "on"),
        ("encryption", "none"),
        ("vpc_id", "default"),
        ("subnet_ids", "subnet-0123456789abcdef0"),
        ("cache_url", "valkey://cache.internal:6379"),
        ("queue_arn", "https://sqs.eu-west-1.amazonaws.com/1/queue"),
        ("timout_seconds", "10"),
        ("workers", ""),
        ("workers", "Reports"),
        ("workers", "reports,reports"),
        ("workers", "reports,recover"),
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


VPC = {"vpc_id": "vpc-01234567", "subnet_ids": "subnet-01234567,subnet-89abcdef"}
CACHE = {
    "cache": "existing",
    "cache_url": "valkeys://cache.internal:6379",
    "cache_security_group_id": "sg-01234567",
}
ARN = "arn:aws:sqs:eu-west-1:111122223333:theirs"


@pytest.mark.parametrize(
    ("context", "name"),
    [
        ({"vpc_id": VPC["vpc_id"]}, "subnet_ids"),
        ({"subnet_ids": VPC["subnet_ids"]}, "vpc_id"),
        ({"queue_arn": ARN}, "dead_letter_queue_arn"),
        ({"queue_arn": ARN, "dead_letter_queue_arn": f"{ARN}.fifo"}, "dead_letter_queue_arn"),
        ({"queue_arn": ARN, "dead_letter_queue_arn": ARN, "fifo": "true"}, "queue_arn"),
        ({**VPC, **CACHE, "cache_name": "theirs"}, "cache_user_id"),
        ({**VPC, **CACHE, "cache_security_group_id": ""}, "cache_security_group_id"),
        ({**VPC, "cache": "existing"}, "cache_url"),
        (CACHE, "vpc_id"),
        ({**VPC, **CACHE, "cache": "serverless"}, "cache_url"),
        ({"cache": "serverless", "cache_eviction": "noeviction"}, "cache_eviction"),
        ({"cache": "serverless", "cache_shards": "2"}, "cache_shards"),
        ({"powertools": "public", "target": "host"}, "powertools"),
        ({"workers": "reports,nowhere"}, "workers"),
        (
            {"workers": "reports,delays", "queue_arn": ARN, "dead_letter_queue_arn": ARN},
            "workers",
        ),
    ],
)
def test_settings_that_need_or_exclude_each_other_stop_the_synth(
    context: dict[str, str], name: str
) -> None:
    with pytest.raises(ConfigInvalid) as invalid:
        read(context)

    assert invalid.value.name == name


def test_a_network_and_a_cache_that_are_there_go_together() -> None:
    own = read({**VPC, **CACHE, "cache_name": "theirs", "cache_user_id": "worker"}).own

    assert own.subnet_ids.split(",") == ["subnet-01234567", "subnet-89abcdef"]
    assert own.cache_url == CACHE["cache_url"]


def test_provisioned_pollers_are_the_cap_and_decide_what_is_reserved() -> None:
    config = read({"stage": "prod", "min_pollers": "2", "max_pollers": "5"})

    assert config.max_concurrency == 0
    assert config.reserved_concurrency == 50


def test_a_function_is_made_for_each_handler_that_is_written(tmp_path: Path) -> None:
    (tmp_path / "recover.py").touch()

    assert available_handlers(tmp_path) == {"recover"}
