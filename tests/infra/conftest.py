"""One synth of each variant of the stack, for every test that reads it."""

from __future__ import annotations

import os
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from infra.config import EVENT_HANDLERS
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
    "hardened": {
        "stage": "prod",
        "encryption": "kms",
        "snap_start": "true",
        "cache_shards": "2",
        "cache_eviction": "noeviction",
    },
    "pollers": {"min_pollers": "2", "max_pollers": "5", "powertools": "public", "stage": "prod"},
    "own": {
        "vpc_id": "vpc-0123456789abcdef0",
        "subnet_ids": "subnet-0123456789abcdef0,subnet-0123456789abcdef1",
        "cache": "existing",
        "cache_url": "valkeys://cache.internal.example:6379",
        "cache_name": "theirs",
        "cache_user_id": "worker",
        "cache_security_group_id": "sg-0123456789abcdef0",
    },
}
# These make their network and cache themselves, and their queues.
WHOLE = [name for name in VARIANTS if name != "own"]


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
def every_or_own(
    request: pytest.FixtureRequest, variant: Callable[[str], Synthesized]
) -> Synthesized:
    """Run the test on each variant, with the one that brings its own network and cache."""
    return variant(request.param)


@pytest.fixture(params=WHOLE)
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


@pytest.fixture
def hardened(variant: Callable[[str], Synthesized]) -> Synthesized:
    """The stack of stage prod with its own key, SnapStart and a cache in cluster mode."""
    return variant("hardened")


@pytest.fixture
def own(variant: Callable[[str], Synthesized]) -> Synthesized:
    """The stack in a network and with a cache that were there before."""
    return variant("own")


@pytest.fixture(scope="session")
def events(tmp_path_factory: pytest.TempPathFactory) -> Synthesized:
    """The stack with a function for each event, whether or not its handler is written yet."""
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.prefix, "bin")), os.environ["PATH"]])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("infra.config.available_handlers", lambda: frozenset(EVENT_HANDLERS))
        with once(tmp_path_factory, "cdk events") as (folder, empty):
            return synthesize(folder) if empty else read(folder)
