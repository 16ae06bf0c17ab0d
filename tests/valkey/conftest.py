"""A world for the tests of single rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.properties.protocol.world import World

if TYPE_CHECKING:
    from redis import Redis


@pytest.fixture
def world(valkey: Redis) -> World:
    """Return an empty server with the model beside it."""
    return World(valkey)
