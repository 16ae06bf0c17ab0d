"""Every choice of a synth, read once from the CDK context (`-c name=value`, or cdk.json).

What differs by stage stands in `STAGES`, what differs by target in `aws_platform` and
`host_platform`: the stack itself never asks which of them it is built for.
"""

import platform
import re
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


class ConfigInvalid(ValueError):
    """A context value breaks its rule; raised while the app is built, so that the synth stops.

    Correct the value that the message names. `name`, `rule` and `value` hold its parts.
    """

    def __init__(self, *, name: str, rule: str, value: object) -> None:
        self.name = name
        self.rule = rule
        self.value = value
        super().__init__(f"{name} must be {rule}, got {value!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """What the functions run on, and what pip must be told to install for it."""

    architecture: str
    python: str
    wheels: str
    pip_arguments: tuple[str, ...]
    cache_iam: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """What a stage decides; each field's two values stand beside each other in `STAGES`."""

    keep_data: bool
    log_retention_days: int
    cache_nodes: int
    cache_node_type: str
    max_concurrency: int
    reserve_concurrency: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The checked choices of one synth. Combinations of the queue's numbers are `QueueNumbers`'."""

    stage_name: str
    stage: Stage
    platform: Platform
    cache: str
    fifo: bool
    timeout_seconds: int
    memory_mib: int
    batch_size: int
    batching_window_seconds: int
    max_concurrency: int
    reserved_concurrency: int | None
    retention_seconds: int
    record_ttl_seconds: int
    lease_seconds: int
    max_attempts: int


STAGES: Final = {
    # For one developer: cheap, and gone without a trace when it is destroyed.
    "dev": Stage(
        keep_data=False,
        log_retention_days=7,
        cache_nodes=1,
        cache_node_type="cache.t4g.micro",
        max_concurrency=10,
        # A new account may have 10 concurrent executions in all, of which none can be reserved.
        reserve_concurrency=False,
    ),
    # Results, objects and logs outlive the stack. Two nodes, because a failover is what makes the
    # cache highly available; not burstable, because a node without CPU credits answers later than
    # the client's 0.5 s. Reserved, so that a neighbour's burst cannot starve the queue.
    "prod": Stage(
        keep_data=True,
        log_retention_days=90,
        cache_nodes=2,
        cache_node_type="cache.m7g.large",
        max_concurrency=50,
        reserve_concurrency=True,
    ),
}

DEFAULT_NUMBERS: Final = {
    # A report takes milliseconds once its month is loaded; 30 s leaves room for a cold load, and a
    # batch that died comes back after six times that.
    "timeout_seconds": (30, 1, 900),
    # CPU comes with memory (1,769 MiB are one core), and a tenth of it is the local cache.
    "memory_mib": (1024, 128, 10_240),
    "batch_size": (10, 1, 10_000),
    "batching_window_seconds": (0, 0, 300),
    "retention_seconds": (345_600, 60, 1_209_599),
    # A record must outlive every copy of its message: the longest retention of SQS and a day.
    "record_ttl_seconds": (1_296_000, 60, 31_536_000),
    "lease_seconds": (12, 1, 900),
    "max_attempts": (3, 1, 100),
}

CACHES: Final = ("replication-group", "serverless")
_OUR_NAMES: Final = re.compile(r"[a-z]+(_[a-z]+)*")
_LAMBDA_PYTHONS: Final = ((3, 11), (3, 14))


def aws_platform() -> Platform:
    """Describe Lambda: arm64 (a fifth cheaper per millisecond) and a current runtime."""
    return Platform(
        architecture="arm64",
        python="3.13",
        wheels="manylinux_2_28_aarch64",
        # Both tags: pip takes wheels of the newer glibc only when it is named (Amazon Linux 2023
        # has 2.34).
        pip_arguments=(
            "--platform=manylinux2014_aarch64",
            "--platform=manylinux_2_28_aarch64",
            "--implementation=cp",
            "--python-version=3.13",
        ),
        cache_iam=True,
    )


def host_platform() -> Platform:
    """Describe this machine, for the local stack; these three are all that it changes.

    arm64 wheels and another Python's do not load here, and nobody here can check the signature
    that IAM authentication sends. (Endpoints, and TLS with them, are replaced when the stack is
    run, not in the template.)
    """
    lowest, highest = _LAMBDA_PYTHONS
    version = sys.version_info[:2]
    if not lowest <= version <= highest:
        raise ConfigInvalid(
            name="target=host",
            rule="run by a Python that Lambda has too (3.11 to 3.14)",
            value=platform.python_version(),
        )
    machine = platform.machine().lower()
    return Platform(
        architecture="arm64" if machine in {"arm64", "aarch64"} else "x86_64",
        python=f"{version[0]}.{version[1]}",
        wheels=sysconfig.get_platform(),
        pip_arguments=(),
        cache_iam=False,
    )


def read(context: Mapping[str, object]) -> Config:
    """Check every value of the context that is ours, and fill in the defaults.

    Raises:
        ConfigInvalid: A value breaks its rule, or a name is unknown (a misspelt one would
            otherwise deploy the default in silence).
    """
    _refuse_unknown(context)
    stage_name = _choice(context, "stage", default="dev", choices=tuple(STAGES))
    stage = STAGES[stage_name]
    target = _choice(context, "target", default="aws", choices=("aws", "host"))
    numbers = {
        name: _number(context, name, default=default, lowest=lowest, highest=highest)
        for name, (default, lowest, highest) in DEFAULT_NUMBERS.items()
    }
    max_concurrency = _number(
        context, "max_concurrency", default=stage.max_concurrency, lowest=2, highest=1000
    )
    reserved = _number(
        context,
        "reserved_concurrency",
        default=max_concurrency if stage.reserve_concurrency else 0,
        lowest=0,
        highest=100_000,
    )
    return Config(
        stage_name=stage_name,
        stage=stage,
        platform=aws_platform() if target == "aws" else host_platform(),
        cache=_choice(context, "cache", default=CACHES[0], choices=CACHES),
        fifo=_choice(context, "fifo", default="false", choices=("true", "false")) == "true",
        max_concurrency=max_concurrency,
        reserved_concurrency=reserved or None,
        **numbers,
    )


def _refuse_unknown(context: Mapping[str, object]) -> None:
    known = {"stage", "target", "cache", "fifo", "max_concurrency", "reserved_concurrency"}
    known |= DEFAULT_NUMBERS.keys()
    for name, value in context.items():
        if _OUR_NAMES.fullmatch(name) and name not in known:
            raise ConfigInvalid(name=name, rule=f"one of {', '.join(sorted(known))}", value=value)


def _choice(
    context: Mapping[str, object], name: str, *, default: str, choices: tuple[str, ...]
) -> str:
    value = context.get(name, default)
    text = str(value).lower() if isinstance(value, bool) else value
    if not isinstance(text, str) or text not in choices:
        raise ConfigInvalid(name=name, rule=f"one of {', '.join(choices)}", value=value)
    return text


def _number(
    context: Mapping[str, object], name: str, *, default: int, lowest: int, highest: int
) -> int:
    value = context.get(name, default)
    rule = f"a whole number between {lowest} and {highest}"
    if not re.fullmatch(r"[0-9]{1,9}", str(value)):
        raise ConfigInvalid(name=name, rule=rule, value=value)
    number = int(str(value))
    if not lowest <= number <= highest:
        raise ConfigInvalid(name=name, rule=rule, value=value)
    return number
