"""One server of AWS interfaces for all directed scenarios of a test process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from infra.local import aws
from infra.local.processes import Nursery
from infra.local.workspace import workspace
from tests.chaos.stage import Stage

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def stage() -> Iterator[Stage]:
    with workspace() as folder:
        nursery = Nursery()
        try:
            yield Stage(aws.start(nursery, folder=folder))
        finally:
            nursery.close()
