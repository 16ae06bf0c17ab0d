"""The parts of a stack that run on this machine, as `assembly.py` reads them from `cdk.out`."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra.local.cloudwatch.definitions import Alarm, Dashboard

Json = Any  # A template is any JSON.


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A Python function: what Lambda would run, in the folders that it would unpack."""

    logical_id: str
    name: str
    handler: str
    runtime: str
    timeout_seconds: float
    memory_mib: int
    variables: Mapping[str, str]
    code: Path
    layers: tuple[Path, ...]
    log_group: str = ""
    reserved_concurrency: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A queue: `attributes` as CreateQueue takes them, `redrive` the ARN of its dead letters."""

    logical_id: str
    name: str
    url: str
    arn: str
    attributes: Mapping[str, str]
    fifo: bool
    dead_letters: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventSourceMapping:
    """What feeds a function from a queue; both are named by their logical ids."""

    logical_id: str
    function: str
    queue: str
    batch_size: int
    window_seconds: float
    partial_batches: bool
    max_concurrency: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table: `definition` as CreateTable takes it."""

    logical_id: str
    name: str
    definition: Mapping[str, Json]
    ttl_attribute: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRule:
    """A rule of EventBridge: a pattern or a schedule, and whom it calls (logical ids)."""

    name: str
    pattern: Json
    schedule: str
    functions: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureDestination:
    """How often Lambda tries an event again, and the queue (ARN) that gets what it gave up."""

    function: str
    retries: int
    queue: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class InsightRule:
    """A rule of Contributor Insights: its body as CloudWatch reads it."""

    name: str
    body: Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Monitoring:
    """How the stack is watched."""

    alarms: tuple[Alarm, ...] = ()
    dashboards: tuple[Dashboard, ...] = ()
    rankings: tuple[InsightRule, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Cache:
    """The shared cache: its name, what its nodes are, and what they do when they are full."""

    logical_id: str
    name: str
    node_type: str
    eviction: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """The parts of a stack that run on this machine, and the types that do not."""

    stack_name: str
    functions: Mapping[str, Function]
    queues: Mapping[str, Queue]
    mappings: tuple[EventSourceMapping, ...]
    tables: tuple[Table, ...]
    buckets: Mapping[str, str]  # Logical id to name.
    left_out: tuple[str, ...]
    caches: tuple[Cache, ...] = ()
    rules: tuple[EventRule, ...] = ()
    destinations: tuple[FailureDestination, ...] = ()
    monitoring: Monitoring = Monitoring()
