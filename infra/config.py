"""Every choice of a synth, read once from the CDK context (`-c name=value`, or cdk.json).

What differs by stage stands in `STAGES`, what differs by target in `infra.platforms`: the stack
itself never asks which of them it is built for.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from infra.invalid import ConfigInvalid
from infra.platforms import Platform, aws_platform, host_platform
from infra.queue_numbers import INVOCATIONS_PER_POLLER


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """What a stage decides; each field's two values stand beside each other in `STAGES`."""

    keep_data: bool
    log_retention_days: int
    cache_nodes: int
    cache_node_type: str
    max_concurrency: int
    reserve_concurrency: bool
    log_flows: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """What the user has already: texts as the context gives them, empty where there is none."""

    vpc_id: str
    subnet_ids: str
    cache_url: str
    cache_name: str
    cache_user_id: str
    cache_security_group_id: str
    queue_arn: str
    dead_letter_queue_arn: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The checked choices of one synth. Combinations of the queue's numbers are `QueueNumbers`'."""

    stage_name: str
    stage: Stage
    platform: Platform
    cache: str
    cache_eviction: str
    cache_shards: int
    own: Own
    handlers: frozenset[str]
    workers: tuple[str, ...]
    fifo: bool
    snap_start: bool
    encryption: str
    powertools: str
    tracing: str
    runbooks_url: str
    timeout_seconds: int
    memory_mib: int
    batch_size: int
    batching_window_seconds: int
    max_concurrency: int
    reserved_concurrency: int | None
    min_pollers: int
    max_pollers: int
    retention_seconds: int
    record_ttl_seconds: int
    lease_seconds: int
    max_attempts: int
    max_receive_count: int

    @property
    def logs_flows(self) -> bool:
        """Whether the network's connections are logged: the stage's choice, in our own network."""
        return self.stage.log_flows and self.platform.deployed and not self.own.vpc_id


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
        # Nobody looks at them; no route leads out of the network.
        log_flows=False,
    ),
    # Results, objects and logs outlive the stack. Two nodes, because a failover is what makes the
    # cache highly available; not burstable, because a node without CPU credits answers later than
    # the client's 0.5 s. Reserved, so that a neighbour's burst cannot starve the queue. Flows are
    # logged, because after a break-in it is too late to begin.
    "prod": Stage(
        keep_data=True,
        log_retention_days=90,
        cache_nodes=2,
        cache_node_type="cache.m7g.large",
        max_concurrency=50,
        reserve_concurrency=True,
        log_flows=True,
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
    # 0: derived from the attempts, see `QueueNumbers.least_receives`.
    "max_receive_count": (0, 0, 1000),
    # 0: not in cluster mode. One node answers some 100,000 commands a second, a batch needs ten.
    "cache_shards": (0, 0, 500),
    # 0: pollers are not provisioned, Lambda scales them for nothing.
    "min_pollers": (0, 0, 200),
    "max_pollers": (0, 0, 2000),
}

# The first one is the default.
CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "stage": tuple(STAGES),
    "target": ("aws", "host"),
    "cache": ("replication-group", "serverless", "existing"),
    # volatile-lru drops values under pressure, and leases if there is nothing else; noeviction
    # refuses writes instead, which is right for a cache that holds no values.
    "cache_eviction": ("volatile-lru", "noeviction"),
    "fifo": ("false", "true"),
    "snap_start": ("false", "true"),
    # Keys of AWS cost nothing; an own key costs 1 USD a month and each request, and can be revoked.
    "encryption": ("managed", "kms"),
    "powertools": ("vendored", "public"),
    # OpenTelemetry's packages are not in the vendor layer (docs/tracing.md).
    "tracing": ("xray", "opentelemetry", "off"),
}

DEFAULT_WORKERS: Final = "reports"
HANDLERS: Final = Path(__file__).resolve().parent.parent / "handlers"
EVENT_HANDLERS: Final = ("invalidate", "recover")
# A module's name, which becomes part of a queue's.
_WORKER: Final = r"[a-z][a-z0-9_]{0,31}"

_ARN: Final = r"arn:aws[a-z-]*:sqs:[a-z0-9-]+:[0-9]{12}:[A-Za-z0-9_-]{1,80}(\.fifo)?"
# What the user has already; each is absent by default.
TEXTS: Final = {
    "vpc_id": (r"vpc-[0-9a-f]{8,17}", "the id of a VPC"),
    "subnet_ids": (
        r"subnet-[0-9a-f]{8,17}(,subnet-[0-9a-f]{8,17})+",
        "the ids of two or more private subnets in different zones, separated by commas",
    ),
    "cache_url": (r"valkeys://[A-Za-z0-9.-]+:[0-9]{1,5}", "valkeys://host:port"),
    "cache_name": (r"[a-z][a-z0-9-]{0,39}", "the name of the cache, in lower case"),
    "cache_user_id": (r"[a-z][a-z0-9-]{0,39}", "the id of a user, the same as its name"),
    "cache_security_group_id": (r"sg-[0-9a-f]{8,17}", "the id of a security group"),
    "queue_arn": (_ARN, "the ARN of a queue"),
    "dead_letter_queue_arn": (_ARN, "the ARN of a queue"),
}
_WORKERS: Final = "names of modules in handlers/, each once, separated by commas"
# Where the pages of docs/operations are read; alarms link to them.
RUNBOOKS_URL: Final = (r"https://[A-Za-z0-9./_~%-]{1,200}", "an https address")
# Which of them mean nothing without the other.
_TOGETHER: Final = (
    ("vpc_id", "subnet_ids"),
    ("queue_arn", "dead_letter_queue_arn"),
    ("cache_name", "cache_user_id"),
    ("cache_url", "cache_security_group_id"),
)
_OUR_NAMES: Final = re.compile(r"[a-z]+(_[a-z]+)*")


def available_handlers(folder: Path = HANDLERS) -> frozenset[str]:
    """Name the modules beside the worker's that a function is made for, where they exist."""
    return frozenset(name for name in EVENT_HANDLERS if (folder / f"{name}.py").exists())


def read(context: Mapping[str, object]) -> Config:
    """Check every value of the context that is ours, and fill in the defaults.

    Raises:
        ConfigInvalid: A value breaks its rule, or a name is unknown (a misspelt one would
            otherwise deploy the default in silence).
    """
    _refuse_unknown(context)
    choices = {name: _choice(context, name) for name in CHOICES}
    numbers = {
        name: _number(context, name, default=default, lowest=lowest, highest=highest)
        for name, (default, lowest, highest) in DEFAULT_NUMBERS.items()
    }
    stage = STAGES[choices["stage"]]
    # Provisioned pollers are a cap of their own.
    cap = 0 if numbers["max_pollers"] else stage.max_concurrency
    lowest = 0 if numbers["max_pollers"] else 2
    max_concurrency = _number(context, "max_concurrency", default=cap, lowest=lowest, highest=1000)
    reserved = _number(
        context,
        "reserved_concurrency",
        default=_reserved(stage, max_concurrency, numbers["max_pollers"]),
        lowest=0,
        highest=100_000,
    )
    config = Config(
        stage_name=choices["stage"],
        stage=stage,
        platform=aws_platform() if choices["target"] == "aws" else host_platform(),
        cache=choices["cache"],
        cache_eviction=choices["cache_eviction"],
        own=Own(**{name: _text(context, name, *TEXTS[name]) for name in TEXTS}),
        handlers=available_handlers(),
        workers=_workers(context),
        fifo=choices["fifo"] == "true",
        snap_start=choices["snap_start"] == "true",
        encryption=choices["encryption"],
        powertools=choices["powertools"],
        tracing=choices["tracing"],
        runbooks_url=_text(context, "runbooks_url", *RUNBOOKS_URL),
        max_concurrency=max_concurrency,
        reserved_concurrency=reserved or None,
        **numbers,
    )
    _check_own(config.own)
    _check_queues(config)
    _check_cache(config)
    _check_snap_start(config)
    _check_powertools(config)
    return config


def _reserved(stage: Stage, max_concurrency: int, max_pollers: int) -> int:
    if not stage.reserve_concurrency:
        return 0
    return max_concurrency or max_pollers * INVOCATIONS_PER_POLLER


def _refuse_unknown(context: Mapping[str, object]) -> None:
    known = {"max_concurrency", "reserved_concurrency", "runbooks_url", "workers"}
    known |= CHOICES.keys() | DEFAULT_NUMBERS.keys() | TEXTS.keys()
    for name, value in context.items():
        if _OUR_NAMES.fullmatch(name) and name not in known:
            raise ConfigInvalid(name=name, rule=f"one of {', '.join(sorted(known))}", value=value)


def _check_own(own: Own) -> None:
    for first, second in _TOGETHER:
        for name, other in ((first, second), (second, first)):
            if getattr(own, name) and not getattr(own, other):
                raise ConfigInvalid(name=other, rule=f"given together with {name}", value="")


def _check_queues(config: Config) -> None:
    for name in ("queue_arn", "dead_letter_queue_arn"):
        arn = getattr(config.own, name)
        if arn and arn.endswith(".fifo") != config.fifo:
            kind = "a FIFO queue's" if config.fifo else "a standard queue's"
            rule = f"{kind} where fifo is {str(config.fifo).lower()}"
            raise ConfigInvalid(name=name, rule=rule, value=arn)
    if config.own.queue_arn and len(config.workers) > 1:
        rule = "one module where queue_arn is given: a queue has one worker"
        raise ConfigInvalid(name="workers", rule=rule, value=",".join(config.workers))


def _workers(context: Mapping[str, object], folder: Path = HANDLERS) -> tuple[str, ...]:
    value = context.get("workers", DEFAULT_WORKERS)
    names = tuple(value.split(",")) if isinstance(value, str) else ()
    legal = all(re.fullmatch(_WORKER, name) and (folder / f"{name}.py").exists() for name in names)
    if not (names and legal) or len({*names, *EVENT_HANDLERS}) != len(names) + len(EVENT_HANDLERS):
        raise ConfigInvalid(name="workers", rule=_WORKERS, value=value)
    return names


def _check_cache(config: Config) -> None:
    own, existing = config.own, config.cache == "existing"
    if existing and not own.cache_url:
        raise ConfigInvalid(name="cache_url", rule="given where cache is existing", value="")
    if existing and not own.vpc_id:
        rule = "given where cache is existing: the worker must be in the cache's network"
        raise ConfigInvalid(name="vpc_id", rule=rule, value="")
    for name in ("cache_url", "cache_name"):
        if getattr(own, name) and not existing:
            rule = "left out where cache is not existing"
            raise ConfigInvalid(name=name, rule=rule, value=getattr(own, name))
    if config.cache != "replication-group" and config.cache_eviction != "volatile-lru":
        rule = f"volatile-lru where cache is {config.cache}"
        raise ConfigInvalid(name="cache_eviction", rule=rule, value=config.cache_eviction)
    if config.cache == "serverless" and config.cache_shards:
        rule = "0 where cache is serverless, which always is in cluster mode"
        raise ConfigInvalid(name="cache_shards", rule=rule, value=config.cache_shards)


def _check_snap_start(config: Config) -> None:
    if config.snap_start and config.platform.python == "3.11":
        raise ConfigInvalid(name="snap_start", rule="false for Python 3.11", value="true")


def _check_powertools(config: Config) -> None:
    if config.powertools == "public" and not config.platform.deployed:
        rule = "vendored where target is host: AWS' layer is not on this machine"
        raise ConfigInvalid(name="powertools", rule=rule, value=config.powertools)


def _choice(context: Mapping[str, object], name: str) -> str:
    choices = CHOICES[name]
    value = context.get(name, choices[0])
    text = str(value).lower() if isinstance(value, bool) else value
    if not isinstance(text, str) or text not in choices:
        raise ConfigInvalid(name=name, rule=f"one of {', '.join(choices)}", value=value)
    return text


def _text(context: Mapping[str, object], name: str, pattern: str, rule: str) -> str:
    value = context.get(name, "")
    if value != "" and not (isinstance(value, str) and re.fullmatch(pattern, value)):
        raise ConfigInvalid(name=name, rule=rule, value=value)
    return str(value)


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
