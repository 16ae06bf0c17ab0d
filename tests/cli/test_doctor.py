"""The doctor finds nothing in the stack as it is, and each of what is broken in it here."""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from sekali.clock import SystemClock
from tests.cli.conftest import Sekali
from tests.conftest import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from redis import Redis

    from infra.local.stack import LocalStack

pytestmark = pytest.mark.slow


@dataclass
class Patient:
    """A copy of the stack's resources on its own server, which may be broken alone."""

    stack: LocalStack
    valkey: Redis
    folder: Path
    told: dict[str, Any]  # Any: JSON
    queue: str
    dead: str
    table: str

    @property
    def sqs(self) -> Any:  # Any: plain dictionaries as attributes
        return self.stack.aws.sqs

    @property
    def mapping(self) -> dict[str, Any]:  # Any: JSON
        found: dict[str, Any] = self.told["mappings"][0]
        return found

    def set(self, *, only_worker: bool = False, **variables: str | None) -> None:
        """Change variables of the functions, or remove them."""
        worker = self.mapping["function"]
        for function in self.told["functions"]:
            if only_worker and function["name"] != worker:
                continue
            own = function["variables"]
            for name, value in variables.items():
                own.pop(name, None)
                own |= {} if value is None else {name: value}

    def attribute(self, url: str, **attributes: str) -> None:
        self.sqs.set_queue_attributes(QueueUrl=url, Attributes=attributes)

    def log(self, *lines: dict[str, Any]) -> None:
        """Let the functions have printed nothing but these lines."""
        path = self.folder / "logs.jsonl"
        texts = map(json.dumps, lines)
        entries = (json.dumps({"at": 0, "request_id": "", "text": text}) for text in texts)
        path.write_text("".join(f"{entry}\n" for entry in entries))
        self.told["log_file"] = str(path)

    def write(self) -> str:
        (self.folder / "running.json").write_text(json.dumps(self.told))
        return str(self.folder)


@pytest.fixture
def patient(stack: LocalStack, valkey: Redis, valkey_url: str, tmp_path: Path) -> Iterator[Patient]:
    told = json.loads((stack.folder / "running.json").read_text())
    sqs: Any = stack.aws.sqs
    suffix = str(time.monotonic_ns())
    source = stack.source_queue()
    attributes = {
        name: value for name, value in source.attributes.items() if name != "RedrivePolicy"
    }
    dead = sqs.create_queue(
        QueueName=f"dead-{suffix}", Attributes={"MessageRetentionPeriod": "1209600"}
    )["QueueUrl"]
    queue = sqs.create_queue(QueueName=f"jobs-{suffix}", Attributes=attributes)["QueueUrl"]
    (table,) = stack.template.tables
    made = f"table-{suffix}"
    stack.aws.dynamodb.create_table(**{**table.definition, "TableName": made})
    stack.aws.dynamodb.update_time_to_live(
        TableName=made, TimeToLiveSpecification={"Enabled": True, "AttributeName": "expires"}
    )
    made_arn = "arn:aws:sqs:us-east-1:000000000000:"
    one = Patient(stack, valkey, tmp_path, told, queue, dead, made)
    one.attribute(
        queue,
        RedrivePolicy=json.dumps(
            {"deadLetterTargetArn": f"{made_arn}dead-{suffix}", "maxReceiveCount": 8}
        ),
    )
    one.mapping["queue_arn"] = f"{made_arn}jobs-{suffix}"
    one.set(
        SEKALI_CACHE_URL=valkey_url.replace("redis://", "valkey://"),
        SEKALI_QUEUE_URL=None,
        SEKALI_TABLE_NAME=made,
    )
    one.set(only_worker=True, SEKALI_QUEUE_URL=queue, SEKALI_DEAD_LETTER_QUEUE_URL=dead)
    yield one
    valkey.config_set("maxmemory-policy", "noeviction")
    valkey.acl_setuser("default", enabled=True, commands=["+@all"], keys=["*"])


def test_doctor_finds_nothing_wrong_in_the_stack_as_it_is(sekali: Sekali) -> None:
    done = sekali("doctor", "--json")

    assert [one for one in done.json["findings"] if one["state"] == "wrong"] == []
    assert (done.status, done.json["wrong"]) == (0, 0)
    assert done.json["checks"] >= 12


def test_copy_of_the_stack_is_sound_before_it_is_broken(
    patient: Patient, capsys: pytest.CaptureFixture[str]
) -> None:
    done = Sekali(capsys, patient.write())("doctor", "--json")

    assert [one for one in done.json["findings"] if one["state"] == "wrong"] == []


def break_redrive(one: Patient) -> None:
    policy = {"deadLetterTargetArn": one.mapping["queue_arn"].replace("jobs-", "dead-")}
    one.attribute(one.queue, RedrivePolicy=json.dumps(policy | {"maxReceiveCount": 1}))


def break_redrive_target(one: Patient) -> None:
    sqs = one.sqs
    other = sqs.create_queue(QueueName=f"other-{time.monotonic_ns()}")["QueueUrl"]
    arn = f"arn:aws:sqs:us-east-1:000000000000:{other.rpartition('/')[2]}"
    policy = {"deadLetterTargetArn": arn, "maxReceiveCount": 8}
    one.attribute(one.queue, RedrivePolicy=json.dumps(policy))


def break_table(one: Patient) -> None:
    name = f"odd-{time.monotonic_ns()}"
    one.stack.aws.dynamodb.create_table(
        TableName=name,
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    one.set(SEKALI_TABLE_NAME=name)


def break_metrics(one: Patient) -> None:
    directive = {"Namespace": "Sekali", "Dimensions": [["service", "job"]], "Metrics": []}
    one.log({"_aws": {"CloudWatchMetrics": [directive]}, "service": "other", "job": "report"})
    one.set(SEKALI_SERVICE="flight-reports")


def break_leases(one: Patient) -> None:
    """Let a holder have renewed its lease for an hour."""
    slot = b"{sekali:1}:"
    record = slot + b"key:delay-report/stuck"
    began = str(int((time.time() - 3_600) * 1000))
    fields: dict[Any, Any] = {
        "f": "7",
        "tk": "t",
        "st": "running",
        "owner": "o",
        "id": "i",
        "started": began,
    }
    one.valkey.hset(record, mapping=fields)
    one.valkey.set(slot + b"lease:delay-report/stuck", "t", px=60_000)
    one.valkey.zadd(slot + b"active", {record: 1})


# Each with the check that finds it, a word of what it found, and a word of the remedy.
BROKEN: dict[str, tuple[Callable[[Patient], object], str, str, str]] = {
    "a setting out of bounds": (
        lambda one: one.set(SEKALI_LEASE_SECONDS="0"),
        "settings",
        "SEKALI_LEASE_SECONDS must be between",
        "docs/settings.md",
    ),
    "a misspelt setting": (
        lambda one: one.set(SEKALI_LEASE_SECOND="12"),
        "settings",
        "the nearest is SEKALI_LEASE_SECONDS",
        "correct SEKALI_LEASE_SECOND ",
    ),
    "functions of two namespaces": (
        lambda one: one.set(only_worker=True, SEKALI_NAMESPACE="other"),
        "shared settings",
        "SEKALI_NAMESPACE",
        "one environment",
    ),
    "a mapping that deletes failed messages": (
        lambda one: one.mapping.update(partial_batches=False),
        "partial responses",
        "failed messages are deleted",
        "ReportBatchItemFailures",
    ),
    "a worker that is not told of partial responses": (
        lambda one: one.set(SEKALI_PARTIAL_BATCH=None),
        "partial responses",
        "refuses every batch",
        "set it to true",
    ),
    "a queue that feeds another function": (
        lambda one: one.mapping.update(queue_arn="arn:aws:sqs:us-east-1:000000000000:elsewhere"),
        "event source",
        "elsewhere feeds the worker",
        "SEKALI_QUEUE_URL",
    ),
    "a visibility below six time-outs": (
        lambda one: one.attribute(one.queue, VisibilityTimeout="29"),
        "visibility",
        "hides a message for 29 s",
        "at least 30",
    ),
    "a visibility that the worker does not know": (
        lambda one: one.attribute(one.queue, VisibilityTimeout="60"),
        "visibility",
        "the queue's timeout is 60",
        "one number",
    ),
    "a retention that the worker does not know": (
        lambda one: one.attribute(one.queue, MessageRetentionPeriod="60"),
        "retention",
        "keeps messages for 60 s",
        "lost in silence",
    ),
    "records that die before their messages": (
        lambda one: one.set(SEKALI_RECORD_TTL_SECONDS="3600"),
        "retention",
        "records live for 3600 s",
        "SEKALI_RECORD_TTL_SECONDS to at least",
    ),
    "no redrive policy": (
        lambda one: one.attribute(one.queue, RedrivePolicy=""),
        "redrive",
        "no redrive policy",
        "RedrivePolicy",
    ),
    "a redrive after one receive": (break_redrive, "redrive", "maxReceiveCount is 1", "at least 8"),
    "a redrive to another queue": (break_redrive_target, "redrive", "other-", "one dead letter"),
    "dead letters that are forgotten soon": (
        lambda one: one.attribute(one.dead, MessageRetentionPeriod="3600"),
        "dead letters",
        "kept for 3600 s",
        "1209600",
    ),
    "no dead letter queue": (
        lambda one: one.sqs.delete_queue(QueueUrl=one.dead),
        "queues",
        "SEKALI_DEAD_LETTER_QUEUE_URL is not there",
        "deploy the queue",
    ),
    "no table": (
        lambda one: one.set(SEKALI_TABLE_NAME="nowhere"),
        "table",
        "the table nowhere cannot be read",
        "SEKALI_TABLE_NAME",
    ),
    "a table of another shape": (break_table, "table", "id (HASH)", "`pk`"),
    "a table that keeps everything": (
        lambda one: one.stack.aws.dynamodb.update_time_to_live(
            TableName=one.table,
            TimeToLiveSpecification={"Enabled": False, "AttributeName": "expires"},
        ),
        "time to live",
        "is off",
        "AttributeName=expires",
    ),
    "no bucket": (
        lambda one: one.set(SEKALI_RESULTS_BUCKET="no-such-bucket"),
        "bucket",
        "no-such-bucket is not there",
        "SEKALI_RESULTS_BUCKET",
    ),
    "no cache": (
        lambda one: one.set(SEKALI_CACHE_URL=f"valkey://127.0.0.1:{free_port()}"),
        "cache",
        "does not answer",
        "security groups",
    ),
    "a cache that evicts anything": (
        lambda one: one.valkey.config_set("maxmemory-policy", "allkeys-lru"),
        "eviction",
        "allkeys-lru",
        "noeviction",
    ),
    "a command that the cache refuses": (
        lambda one: one.valkey.acl_setuser("default", enabled=True, commands=["-zadd"]),
        "cache commands",
        "claim is refused",
        "access string",
    ),
    "a holder that never ends": (break_leases, "leases", "1 leases were renewed", "sekali steal"),
    "metrics of another service": (break_metrics, "metrics", "service other", "SEKALI_SERVICE"),
    "a local cache without bounds": (
        lambda one: one.set(SEKALI_LOCAL_MAX_BYTES="10000000000"),
        "memory",
        "10000000000 bytes",
        "SEKALI_LOCAL_MAX_BYTES",
    ),
}


@pytest.mark.parametrize("what", BROKEN)
def test_doctor_finds_what_is_broken_and_says_what_to_do(
    patient: Patient, capsys: pytest.CaptureFixture[str], what: str
) -> None:
    breaks, check, found, remedy = BROKEN[what]
    breaks(patient)

    done = Sekali(capsys, patient.write())("doctor", "--json")

    wrong = [one for one in done.json["findings"] if one["state"] == "wrong"]
    assert done.status == 1, done.json
    assert [one for one in wrong if one["check"] == check and found in one["found"]], wrong
    assert [one for one in wrong if one["check"] == check and remedy in one["remedy"]], wrong


def test_doctor_finds_a_clock_that_is_wrong(
    patient: Patient, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SystemClock, "wall", staticmethod(lambda: time.time() + 600))

    done = Sekali(capsys, patient.write())("doctor", "--json")

    [clock] = [one for one in done.json["findings"] if one["check"] == "clock"]
    assert re.search(r"(599|600|601) s behind", clock["found"])
    assert "set the clocks" in clock["remedy"]


def test_doctor_leaves_nothing_behind_that_does_not_end(
    patient: Patient, capsys: pytest.CaptureFixture[str]
) -> None:
    Sekali(capsys, patient.write())("doctor")

    endless = [key for key in patient.valkey.scan_iter() if patient.valkey.ttl(key) < 0]
    leases = [key for key in patient.valkey.scan_iter() if b"lease:" in key]
    assert (endless, leases) == ([], [])
