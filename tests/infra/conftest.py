"""One synth of each variant of the stack, for every test that reads it."""

from __future__ import annotations

import os
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.infra.synthesized import Synthesized, once, read, synthesize

if TYPE_CHECKING:
    from collections.abc import Callable

VARIANTS = {
    "dev": {},
    "prod": {"stage": "prod"},
    "host": {"target": "host"},
    "serverless": {"cache": "serverless"},
    "fifo": {"fifo": "true"},
    "large batches": {"batch_size": "500", "batching_window_seconds": "3", "timeout_seconds": "10"},
}


@pytest.fixture(scope="session")
def variant(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Synthesized]:
    """Synthesize a variant by its name, once for all test processes."""
    # Node of this environment, not the machine's.
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.prefix, "bin")), os.environ["PATH"]])

    @cache
    def of(name: str) -> Synthesized:
        with once(tmp_path_factory, f"cdk {name}") as (folder, empty):
            return synthesize(folder, **VARIANTS[name]) if empty else read(folder)

    return of


@pytest.fixture(params=list(VARIANTS))
def every(request: pytest.FixtureRequest, variant: Callable[[str], Synthesized]) -> Synthesized:
    """Run the test on each variant."""
    return variant(request.param)


@pytest.fixture
def dev(variant: Callable[[str], Synthesized]) -> Synthesized:
    """The stack as `cdk synth` makes it without any choice."""
    return variant("dev")


@pytest.fixture
def prod(variant: Callable[[str], Synthesized]) -> Synthesized:
    """The stack of stage prod."""
    return variant("prod")


@pytest.fixture
def host(variant: Callable[[str], Synthesized]) -> Synthesized:
    """The stack as it is run on this machine."""
    return variant("host")


@pytest.fixture
def serverless(variant: Callable[[str], Synthesized]) -> Synthesized:
    """The stack with a serverless cache."""
    return variant("serverless")


@pytest.fixture
def fifo(variant: Callable[[str], Synthesized]) -> Synthesized:
    """The stack with FIFO queues."""
    return variant("fifo")
