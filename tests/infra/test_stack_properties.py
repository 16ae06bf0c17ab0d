"""Whatever settings are chosen: a clear error, or a template that keeps every rule.

Thirty settings in `make test`, synthesized in one app; STACK_SYNTHS asks for another number
(`make test-synths`: three hundred).
"""

from __future__ import annotations

import json
import os
import random
import re
import sys
from typing import TYPE_CHECKING, Any

import pytest

from infra.config import read
from infra.invalid import ConfigInvalid
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

SYNTHS = int(os.environ.get("STACK_SYNTHS", "30"))
SEED = int(os.environ.get("STACK_SEED", "1"))
BAKED_IN = r"\b[0-9]{12}\b|\b(eu|us|ap|sa|ca|me|af)-[a-z]+-[0-9]\b"
# Each of these is right by itself; together some are not (a cap above what is reserved, …).
PLAUSIBLE: dict[str, list[str]] = {
    "stage": ["dev", "prod"],
    "cache": ["replication-group", "replication-group", "serverless"],
    "fifo": ["false", "false", "true"],
    "snap_start": ["false", "true"],
    "encryption": ["managed", "kms"],
    "powertools": ["vendored", "vendored", "public"],
    "timeout_seconds": ["1", "30", "299", "900"],
    "memory_mib": ["128", "1024", "10240"],
    "batch_size": ["", "1", "10"],
    "max_concurrency": ["", "", "2", "50", "1000"],
    "reserved_concurrency": ["", "", "0", "1000"],
    "retention_seconds": ["", "345600", "1209599"],
    "lease_seconds": ["", "1", "900"],
    "max_attempts": ["", "1", "20"],
}
# What goes together, beside what stands above.
GROUPS: list[dict[str, str]] = [
    {},
    {},
    {"batch_size": "10000", "batching_window_seconds": "300", "fifo": "false"},
    {"batch_size": "11", "batching_window_seconds": "1", "fifo": "false"},
    {"min_pollers": "2", "max_pollers": "5", "max_concurrency": "", "reserved_concurrency": ""},
    {"cache": "replication-group", "cache_shards": "3", "cache_eviction": "noeviction"},
    {
        "vpc_id": "vpc-0123456789abcdef0",
        "subnet_ids": "subnet-0123456789abcdef0,subnet-0123456789abcdef1",
    },
    {
        "vpc_id": "vpc-0123456789abcdef0",
        "subnet_ids": "subnet-0123456789abcdef0,subnet-0123456789abcdef1",
        "cache": "existing",
        "cache_url": "valkeys://cache.internal.example:6379",
        "cache_security_group_id": "sg-0123456789abcdef0",
        "cache_shards": "1",
    },
    {
        "queue_arn": "arn:aws:sqs:eu-west-1:111122223333:theirs",
        "dead_letter_queue_arn": "arn:aws:sqs:eu-west-1:111122223333:letters",
        "fifo": "false",
    },
]
# What is wrong, or nearly always is.
ODD: dict[str, list[str]] = {
    "stage": ["production"],
    "fifo": ["yes"],
    "cache_eviction": ["noeviction", "allkeys-lru"],
    "cache_shards": ["1", "501"],
    "timeout_seconds": ["0", "901", "30s"],
    "batch_size": ["11", "10000", "0"],
    "batching_window_seconds": ["1", "301"],
    "max_concurrency": ["1", "1001"],
    "min_pollers": ["1", "3"],
    "max_pollers": ["1", "2001"],
    "reserved_concurrency": ["1"],
    "retention_seconds": ["59", "1209600", "900"],
    "record_ttl_seconds": ["345599"],
    "max_attempts": ["0", "100"],
    "max_receive_count": ["5", "1001"],
    "vpc_id": ["default", "vpc-0123456789abcdef0"],
    "cache_url": ["redis://cache:6379"],
    "queue_arn": ["arn:aws:sqs:eu-west-1:111122223333:theirs.fifo"],
    "timeout": ["30"],
}


def generated(chance: random.Random) -> dict[str, str]:
    """Settings as somebody might give them, the defaults left out; about every second is wrong."""
    chosen = {name: chance.choice(values) for name, values in PLAUSIBLE.items()}
    chosen |= chance.choice(GROUPS)
    if chance.random() < 1 / 2:
        name = chance.choice(sorted(ODD))
        chosen[name] = chance.choice(ODD[name])
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

    sys.stdout.write(f"{len(made)} templates, {len(refused)} refusals\n")
    assert min(len(made), len(refused)) >= SYNTHS // 6, refused
    for text in refused:
        # The setting, its rule, and the value that was found; a number's tells the one to use.
        assert re.match(r"[a-z_]+ must be .+[:,] got '?[^ ]*'?(, use [0-9]+)?$", text), text
    for name, context in made.items():
        text = (tmp_path / f"{name}.template.json").read_text()
        template = json.loads(text)
        stack = Synthesized(folder=tmp_path, text=text, resources=template["Resources"])
        assert [str(one) for one in check(template)] == [], context
        keeps_the_facts(stack, context)


def keeps_the_facts(stack: Synthesized, context: dict[str, str]) -> None:
    """The rules of FACTS 1, 2, 6 and 7, in the words of the template."""
    mapping_keeps_the_facts(stack, fifo=context.get("fifo") == "true")
    if "queue_arn" not in context:
        queues_keep_the_facts(stack, fifo=context.get("fifo") == "true")
    if context.get("snap_start") == "true":
        alias = stack.only(MAPPING)["FunctionName"]["Ref"]
        assert stack.resources[alias]["Type"] == "AWS::Lambda::Alias"
    if context["cache"] == "existing":
        assert not [*stack.of(GROUP), *stack.of(SERVERLESS)]
    else:
        cache_keeps_the_facts(stack)
    for policy in stack.of("AWS::IAM::Policy").values():
        for statement in policy["PolicyDocument"]["Statement"]:
            assert not [action for action in as_list(statement["Action"]) if "*" in action]
    assert not [one for one in stack.of("AWS::IAM::Role").values() if "ManagedPolicyArns" in one]
    assert bool(stack.of("AWS::EC2::VPCEndpoint")) == ("vpc_id" not in context)
    # Nothing is baked in: an account or a region is a reference, or in the ARN that was given.
    assert "queue_arn" in context or not re.search(BAKED_IN, stack.text)
    # The library's own word on what each function is told.
    for function in stack.of(FUNCTION).values():
        variables: dict[str, Any] = function["Environment"]["Variables"]
        Settings.from_env(
            {name: resolved(value, stack.resources) for name, value in variables.items()}
        )


def queues_keep_the_facts(stack: Synthesized, *, fifo: bool) -> None:
    source, letters = queues(stack)
    worker, mapping = stack.worker(), stack.only(MAPPING)
    window = mapping.get("MaximumBatchingWindowInSeconds", 0)
    attempts = int(worker["Environment"]["Variables"]["SEKALI_MAX_ATTEMPTS"])

    assert source["VisibilityTimeout"] >= 6 * worker["Timeout"] + window
    assert source["VisibilityTimeout"] <= 43_200
    assert bool(source.get("FifoQueue")) == bool(letters.get("FifoQueue")) == fifo
    assert letters["MessageRetentionPeriod"] == 1_209_600 > source["MessageRetentionPeriod"]
    assert letters["RedriveAllowPolicy"]["redrivePermission"] == "byQueue"
    assert 5 + attempts <= source["RedrivePolicy"]["maxReceiveCount"] <= 1000
    # Each queue refuses what is not TLS.
    policies = [one["PolicyDocument"] for one in stack.of("AWS::SQS::QueuePolicy").values()]
    refusing = [one for one in policies if '"aws:SecureTransport": "false"' in json.dumps(one)]
    assert len(refusing) == len(stack.of("AWS::SQS::Queue"))


def mapping_keeps_the_facts(stack: Synthesized, *, fifo: bool) -> None:
    mapping, worker = stack.only(MAPPING), stack.worker()
    window = mapping.get("MaximumBatchingWindowInSeconds", 0)
    cap = mapping.get("ScalingConfig", {}).get("MaximumConcurrency", 0)
    pollers = mapping.get("ProvisionedPollerConfig", {}).get("MaximumPollers", 0)

    assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert mapping["BatchSize"] <= (10 if fifo else 10_000)
    assert mapping["BatchSize"] <= 10 or window >= 1
    assert not (fifo and "MaximumBatchingWindowInSeconds" in mapping)
    assert bool(cap) != bool(pollers)
    assert worker.get("ReservedConcurrentExecutions", 100_000) >= cap + 10 * pollers


def cache_keeps_the_facts(stack: Synthesized) -> None:
    (users,) = stack.of("AWS::ElastiCache::UserGroup").values()

    assert len(users["UserIds"]) == 1
    for cache in stack.of(GROUP).values():
        assert cache["TransitEncryptionMode"] == "required"
        assert cache["AtRestEncryptionEnabled"] is True
        assert len(cache["UserGroupIds"]) == 1
    for cache in stack.of(SERVERLESS).values():
        assert cache["UserGroupId"]
    assert len(stack.of(GROUP)) + len(stack.of(SERVERLESS)) == 1
