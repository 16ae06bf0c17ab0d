"""A container's first job imports what it uses, and nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.benchmarks.loads import Load

if TYPE_CHECKING:
    from redis import Redis

ROOT = Path(__file__).parents[2]
PROGRAM = """
import json, os, sys
from sekali import Worker
worker = Worker("imports", hooks=[])

@worker.job("square", key="{payload[n]}", ttl_seconds=60)
def square(job):
    return {"n": job.payload["n"]}

before = set(sys.modules)
answer = worker.handler(json.loads(os.environ["EVENT"]), None)
assert answer == {"batchItemFailures": []}, answer
print(json.dumps([sorted(before), sorted(sys.modules)]))
"""
NOT_BY_THE_FIRST_JOB = {
    "redis": "of a cache that is one server (`link`); a cluster's client",
    "opentelemetry": "where traces or metrics go through it",
    "aws_xray_sdk": "where X-Ray draws",
    "boto3": "where there is a table, a copy or a dead letter",
    "botocore.client": "the same",
    "botocore.session": "the same, or where the role logs in to the cache",
    "importlib.metadata": "nothing asks which versions are installed",
    "email": "the same",
    "unittest": "a test's",
    "pydantic": "where a payload is one",
    "sekali.producer": "where something is sent",
    "sekali.recovery": "of the recovery function",
    "sekali.iam": "where the role logs in",
}
"""And when it is."""
MOST_MODULES_OF_THE_FIRST_JOB = 15
"""Imported after INIT: the connection, its parser, and what the standard library needs for both."""
MOST_MODULES = 400
"""Of both, the interpreter's own included."""


@pytest.fixture
def imported(valkey: Redis, valkey_url: str) -> tuple[set[str], set[str]]:
    """Return what was imported before the first job, and after it."""
    assert valkey.dbsize() == 0
    environment = {
        "PYTHONPATH": f"{ROOT / 'layers' / 'sekali' / 'python'}:{ROOT}",
        "POWERTOOLS_TRACE_DISABLED": "true",
        "EVENT": json.dumps(Load("cold", name="imports").batch(1)),
        "SEKALI_CACHE_URL": valkey_url,
        "SEKALI_DURABLE_MODE": "redis",
        "SEKALI_QUEUE_URL": "http://127.0.0.1:9/queue/jobs",
        "SEKALI_DEAD_LETTER_QUEUE_URL": "http://127.0.0.1:9/queue/dead",
        "SEKALI_PARTIAL_BATCH": "true",
    }
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, check=True, capture_output=True, text=True
    )
    before, after = json.loads(ran.stdout.splitlines()[-1])
    return set(before), set(after)


def test_first_job_imports_nothing_that_was_not_chosen(
    imported: tuple[set[str], set[str]],
) -> None:
    _, after = imported

    assert after & set(NOT_BY_THE_FIRST_JOB) == set()


def test_modules_of_a_cold_start_are_bounded_in_number(
    imported: tuple[set[str], set[str]],
) -> None:
    before, after = imported

    assert sorted(after - before)[MOST_MODULES_OF_THE_FIRST_JOB:] == []
    assert len(after) <= MOST_MODULES
