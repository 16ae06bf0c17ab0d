"""One server of each kind and a way to start execution environments, shared by these tests."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from infra.local import assembly, aws, runtime_folder
from infra.local.aws import Aws
from infra.local.aws_calls import AwsCalls
from infra.local.doors import Doors
from infra.local.environment import Environment
from infra.local.logs import Logs
from infra.local.processes import Nursery
from infra.local.relay import Relay
from infra.local.workspace import workspace
from tests.runtime.toy import write_assembly

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from infra.local.relay import Address
    from infra.local.template import Function

NOWHERE = ("127.0.0.1", 9)


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    children = Nursery()
    yield children
    children.close()


@pytest.fixture(scope="session")
def relay() -> Iterator[Relay]:
    thread = Relay()
    yield thread
    thread.close()


@pytest.fixture(scope="session")
def server_folder() -> Iterator[Path]:
    with workspace() as folder:
        yield folder


@pytest.fixture(scope="session")
def runtime(server_folder: Path) -> Path:
    return runtime_folder.build(server_folder / "runtime")


@pytest.fixture(scope="session")
def aws_address(nursery: Nursery, server_folder: Path) -> Address:
    return aws.start(nursery, folder=server_folder)


@pytest.fixture(scope="session")
def local_aws(aws_address: Address) -> Aws:
    return Aws(aws_address)


@pytest.fixture
def logs() -> Logs:
    return Logs()


@pytest.fixture
def toy_function(tmp_path: Path) -> Function:
    return assembly.read(write_assembly(tmp_path / "cdk.out")).functions["Worker"]


@pytest.fixture
def start_environment(
    nursery: Nursery, relay: Relay, runtime: Path, logs: Logs, tmp_path: Path
) -> Iterator[Callable[[Function], Environment]]:
    """Start environments, not initialised yet, that are gone after the test."""
    with ExitStack() as exits:
        numbers = iter(range(1, 1000))

        def start(function: Function) -> Environment:
            number = next(numbers)
            environment = Environment(
                function,
                number=number,
                nursery=nursery,
                doors=Doors(relay, cache=NOWHERE, aws=NOWHERE, calls=AwsCalls()),
                runtime=runtime,
                folder=tmp_path / f"environment-{number}",
                on_line=logs.take,
            )
            exits.callback(environment.close)
            return environment

        yield start
