"""A cold start imports what its first batch uses, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LIBRARY = ROOT / "layers" / "sekali" / "python"

# The dearest to import (docs/performance.md), and what only some functions need.
NOT_AT_INIT = {
    "aws_xray_sdk",
    "boto3",
    "botocore.client",
    "botocore.session",
    "redis",
    "redis.asyncio",
    "hiredis",
    "sekali.producer",
    "sekali.recovery",
    "unittest",
    "pydantic",
}


def modules_after(code: str) -> set[str]:
    """Run code in a process of its own and return what it imported."""
    program = f"{code}\nimport sys; print(*sys.modules)"
    environment = {"PYTHONPATH": f"{LIBRARY}:{ROOT}", "POWERTOOLS_TRACE_DISABLED": "true"}
    answer = subprocess.run(
        [sys.executable, "-c", program], env=environment, check=True, capture_output=True, text=True
    )
    return set(answer.stdout.split())


@pytest.mark.parametrize("code", ["import handlers.reports", "from sekali import IdempotencyLayer"])
def test_init_imports_nothing_that_the_first_batch_may_not_need(code: str) -> None:
    modules = modules_after(code)

    assert modules & NOT_AT_INIT == set()


def test_producer_needs_neither_powertools_nor_the_cache_client() -> None:
    modules = modules_after("from sekali import Producer")

    assert modules & {"aws_lambda_powertools", "redis", "boto3"} == set()


def test_powertools_own_store_is_there_for_whoever_asks_for_it() -> None:
    modules = modules_after(
        "import sekali.worker\n"
        "from aws_lambda_powertools.utilities.idempotency import DynamoDBPersistenceLayer as one\n"
        "from aws_lambda_powertools.utilities.idempotency.persistence import dynamodb\n"
        "import aws_lambda_powertools.utilities.idempotency as package\n"
        "assert one is dynamodb.DynamoDBPersistenceLayer is package.DynamoDBPersistenceLayer\n"
        "assert issubclass(one, package.BasePersistenceLayer)\n"
    )

    assert "boto3" in modules


def test_a_name_that_powertools_does_not_have_is_still_an_error() -> None:
    code = (
        "import sekali.worker\n"
        "import aws_lambda_powertools.utilities.idempotency as package\n"
        "assert not hasattr(package, 'Unheard')\n"
    )

    assert "sekali.worker" in modules_after(code)
