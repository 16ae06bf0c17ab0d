"""One local stack for these tests, and the command as a function that returns what it printed."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from infra.local.stack import LocalStack
from infra.local.synthesis import synthesize
from sekali.cli import shelf
from sekali.cli.clients import Session
from sekali.cli.program import main
from tests.flight_data import invented_month

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sekali.cli.place import Service


@pytest.fixture(scope="session")
def stack() -> Iterator[LocalStack]:
    """Run the stack of the demo, with one invented month of flights."""
    with LocalStack(synthesize()) as started:
        (bucket,) = started.template.buckets.values()
        month = invented_month("2013-01").encode()
        started.aws.s3.put_object(Bucket=bucket, Key="flights/2013-01.csv", Body=month)
        yield started


@pytest.fixture(autouse=True)
def _no_long_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    """The servers of these tests know all of their messages at once."""
    monkeypatch.setattr(shelf, "WAIT_SECONDS", 0)


_make = Session._make


@functools.cache
def _made(endpoint_url: str, region: str, service: Service) -> Any:  # Any: a client
    session = Session(
        profile=None,
        region=region,
        endpoint_url=endpoint_url,
        credentials=("local", "local"),
    )
    return _make(session, service)


@pytest.fixture(autouse=True)
def _clients_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Share the clients of a server among commands: making three takes longer than a command."""

    def make(self: Session, service: Service) -> Any:  # Any: a client
        if self.endpoint_url and self.region:
            return _made(self.endpoint_url, self.region, service)
        return _make(self, service)

    monkeypatch.setattr(Session, "_make", make)


@dataclass(frozen=True)
class Done:
    """What a command ended with and wrote."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:  # Any: JSON
        found: dict[str, Any] = json.loads(self.out)
        return found

    @property
    def error(self) -> dict[str, Any]:  # Any: JSON
        found: dict[str, Any] = json.loads(self.err)["error"]
        return found


class Sekali:
    """The command, on one stack where `at` names it."""

    def __init__(self, capsys: pytest.CaptureFixture[str], at: str | None = None) -> None:
        self._capsys = capsys
        self._where = [] if at is None else ["--local-at", at]

    def __call__(self, *arguments: str) -> Done:
        self._capsys.readouterr()
        status = main([*self._where, *arguments])
        written = self._capsys.readouterr()
        return Done(status, written.out, written.err)


@pytest.fixture
def sekali(stack: LocalStack, capsys: pytest.CaptureFixture[str]) -> Sekali:
    """Run the command on the stack of these tests."""
    return Sekali(capsys, str(stack.folder))


@pytest.fixture
def bare(capsys: pytest.CaptureFixture[str]) -> Sekali:
    """Run the command without a stack."""
    return Sekali(capsys)
