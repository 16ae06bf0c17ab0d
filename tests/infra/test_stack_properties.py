"""Whatever settings are chosen: a clear error, or a template that keeps every rule.

Thirty settings in `make test`, synthesized in one app; SEKALI_SYNTHS asks for another number
(`make test-synths`: three hundred).
"""

from __future__ import annotations

import json
import os
import random
import re
from typing import TYPE_CHECKING, Any

import pytest

from infra.config import ConfigInvalid, read
from infra.queue_numbers import QueueRuleBroken
from infra.rules import check
from sekali.settings import Settings
from tests.infra.synthesized import (
    FUNCTION,
    GROUP,
    MAPPING,
    SERVERLESS,
    Synthesized,
    as_list,
    flags,
    queues,
    resolved,
)

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

SYNTHS = int(os.environ.get("SEKALI_SYNTHS", "30"))
SEED = int(os.environ.get("SEKALI_SEED", "1"))
# Mostly plausible, and about every third one wrong in some way.
CHOICES: dict[str, list[str]] = {
    "stage": ["dev", "prod"],
    "cache": ["replication-group", "replication-group", "serverless"],
    "cache_eviction": ["volatile-lru", "volatile-lru", "volatile-lru", "noeviction"],
    "cache_shards": ["0", "0", "0", "1", "3"],
    "fifo": ["false", "false", "true"],
    "snap_start": ["false", "true"],
    "encryption": ["managed", "kms"],
    "powertools": ["vendored", "vendored", "public"],
    "timeout_seconds": ["1", "30", "30", "299", "900"],
    "memory_mib": ["128", "1024", "10240"],
    "batch_size": ["1", "10", "10", "10", "11", "10000"],
    "batching_window_seconds": ["0", "0", "0", "1", "300"],
    "max_concurrency": ["", "", "2", "1000"],
    "min_pollers": ["0", "0", "0", "2"],
    "max_pollers": ["0", "0", "0", "5"],
    "reserved_concurrency": ["", "", "", "1", "2000"],
    "retention_seconds": ["345600", "345600", "1209599", "3600"],
    "record_ttl_seconds": ["1296000", "1296000", "345600"],
    "lease_seconds": ["12", "900"],
    "max_attempts": ["3", "100"],
    "max_receive_count": ["0", "0", "0", "8", "1000"],
}


def generated(chance: random.Random) -> dict[str, str]:
    """Settings as somebody might give them, the defaults left out."""
    chosen = {name: chance.choice(values) for name, values in CHOICES.items()}
    return {name: value for name, value in chosen.items() if value}


def test_any_settings_are_refused_clearly_or_make_a_template_that_keeps_every_rule(
    tmp_path: Path,
) -> None:
    from aws_cdk import App

    from infra.stack import SekaliStack

    chance = random.Random(SEED)
    app = App(context=flags(), outdir=str(tmp_path))
    made: dict[str, dict[str, str]] = {}
    refused: list[str] = []
    while len(made) + len(refused) < SYNTHS:
        context = generated(chance)
        name = f"Sekali-{len(made)}"
        try:
            config = read(context)
            SekaliStack(app, name, config=config)
        except (ConfigInvalid, QueueRuleBroken) as error:
            # Half a stack would be synthesized with the others.
            app.node.try_remove_child(name)
            refused.append(str(error))
            continue
        made[name] = context

    app.synth()

    assert min(len(made), len(refused)) >= SYNTHS // 6, refused
    for text in refused:
        # The setting, its rule, and either the value that was found or the number to use.
        assert re.match(rf"({'|'.join(CHOICES)}) must be .+ got ", text), text
    for name, context in made.items():
        text = (tmp_path / f"{name}.template.json").read_text()
        template = json.loads(text)
        stack = Synthesized(folder=tmp_path, text=text, resources=template["Resources"])
        assert [str(one) for one in check(template)] == [], context
        keeps_the_facts(stack, context)


def keeps_the_facts(stack: Synthesized, context: dict[str, str]) -> None:
    """The rules of FACTS 1, 6 and 7, in the words of the template."""
    source, letters = queues(stack)
    mapping, worker = stack.only(MAPPING), stack.worker()
    fifo = context.get("fifo") == "true"
    window = mapping.get("MaximumBatchingWindowInSeconds", 0)

    # FACTS 1
    assert source["VisibilityTimeout"] >= 6 * worker["Timeout"] + window, context
    assert source["VisibilityTimeout"] <= 43_200
    assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert mapping["BatchSize"] <= (10 if fifo else 10_000)
    assert mapping["BatchSize"] <= 10 or window >= 1
    assert not (fifo and "MaximumBatchingWindowInSeconds" in mapping)
    assert bool(source.get("FifoQueue")) == bool(letters.get("FifoQueue")) == fifo
    assert letters["MessageRetentionPeriod"] == 1_209_600 > source["MessageRetentionPeriod"]
    assert letters["RedriveAllowPolicy"]["redrivePermission"] == "byQueue"
    cap = mapping.get("ScalingConfig", {}).get("MaximumConcurrency", 0)
    pollers = mapping.get("ProvisionedPollerConfig", {}).get("MaximumPollers", 0)
    assert bool(cap) != bool(pollers)
    assert worker.get("ReservedConcurrentExecutions", 100_000) >= cap + 10 * pollers
    attempts = int(worker["Environment"]["Variables"]["SEKALI_MAX_ATTEMPTS"])
    assert 5 + attempts <= source["RedrivePolicy"]["maxReceiveCount"] <= 1000
    # FACTS 2
    if context.get("snap_start") == "true":
        alias = mapping["FunctionName"]["Ref"]
        assert stack.resources[alias]["Type"] == "AWS::Lambda::Alias"
    # FACTS 6
    (users,) = stack.of("AWS::ElastiCache::UserGroup").values()
    assert len(users["UserIds"]) == 1
    for cache in stack.of(GROUP).values():
        assert cache["TransitEncryptionMode"] == "required"
        assert cache["AtRestEncryptionEnabled"] is True
        assert len(cache["UserGroupIds"]) == 1
    for cache in stack.of(SERVERLESS).values():
        assert cache["UserGroupId"]
    assert len(stack.of(GROUP)) + len(stack.of(SERVERLESS)) == 1
    for policy in stack.of("AWS::IAM::Policy").values():
        for statement in policy["PolicyDocument"]["Statement"]:
            assert not [action for action in as_list(statement["Action"]) if "*" in action]
    # The library's own word on what each function is told.
    for function in stack.of(FUNCTION).values():
        variables: dict[str, Any] = function["Environment"]["Variables"]
        Settings.from_env(
            {name: resolved(value, stack.resources) for name, value in variables.items()}
        )
