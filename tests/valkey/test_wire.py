"""One connection at hand: who takes it, when it is made anew, and what it costs."""

from __future__ import annotations

import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from hiredis import pack_command
from redis import Redis

from sekali.clock import SystemClock
from sekali.refusals import Refused
from sekali.scripts import Command, Script
from sekali.shared import Shared, in_parts
from sekali.wire import AWAY, Wire
from tests.cache_kit import Fleet, loader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    from redis.cluster import RedisCluster


DEADLINE_SECONDS = 20
PACK: Any = pack_command  # Any: its types know of one argument only
MY_ID = Command(("CLIENT", "ID"))

MOST_CALLS_OF_A_LOCAL_HIT = 8
"""The caller's two, the look into the dictionary, the two clocks, and the profiler's own."""
MOST_CALLS_OF_A_SHARED_HIT = 103
MOST_CALLS_OF_A_SHARED_GET = 111
MOST_CALLS_OF_A_FLUSH = 70
"""A GET through redis-py makes 138."""


@pytest.fixture(params=["link", "through redis-py"])
def shared(
    valkey: Redis, valkey_url: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Shared]:
    assert valkey.dbsize() == 0
    if request.param != "link":
        monkeypatch.setattr("sekali.connections.find_spec", lambda _: None)
    fleet = Fleet(valkey_url, cache_timeout_seconds=DEADLINE_SECONDS)
    door = fleet.box(SystemClock()).container.shared
    yield door
    door.close()


def test_flushes_in_turn_use_one_connection(shared: Shared) -> None:
    ids = [shared.flush([MY_ID]) for _ in range(3)]

    assert ids == [ids[0]] * 3
    assert shared.flushes == 3


def test_flush_that_finds_it_taken_uses_another_connection(shared: Shared, valkey: Redis) -> None:
    (mine,) = shared.flush([MY_ID])
    with ThreadPoolExecutor(1) as pool:
        taken = pool.submit(shared.flush, [MY_ID, Command(("BLPOP", "list", 0))])
        until = time.monotonic() + DEADLINE_SECONDS
        while not valkey.info("clients")["blocked_clients"] and time.monotonic() < until:
            time.sleep(0.005)
        (beside,) = shared.flush([MY_ID])
        valkey.rpush("list", "go on")
        first, _ = taken.result(DEADLINE_SECONDS)

    assert (first, shared.flush([MY_ID])) == (mine, [mine])
    assert beside != mine


def test_connection_that_the_server_closed_is_not_sent_on(shared: Shared, valkey: Redis) -> None:
    (mine,) = shared.flush([MY_ID])
    valkey.client_kill_filter(_id=mine)

    (other,) = shared.flush([MY_ID])

    assert other != mine
    assert shared.flushes == 2  # no attempt was lost


def test_other_time_outs_take_another_connection(shared: Shared) -> None:
    (usual,) = shared.flush([MY_ID], within_seconds=600)

    (hurried,) = shared.flush([MY_ID], within_seconds=DEADLINE_SECONDS / 2)
    (relaxed,) = shared.flush([MY_ID], within_seconds=600)

    assert len({usual, hurried, relaxed}) == 3


def test_refusal_stands_in_its_replys_place(shared: Shared) -> None:
    text, refused, still = shared.flush(
        [Command(("SET", "k", "v")), Command(("HGET", "k", "f")), Command(("GET", "k"))]
    )

    assert (text, still) == (True, b"v")
    assert isinstance(refused, Refused)
    assert refused.code == "WRONGTYPE"


def test_reply_that_is_left_unread_is_never_taken_for_the_next_ones(shared: Shared) -> None:
    """A flush that breaks off in the middle of its replies closes what it spoke on."""
    shared.flush([Command(("SET", "a", "1")), Command(("SET", "b", "2"))])

    class Broken(BaseException):
        """What a signal may raise anywhere."""

    parsed = ["feed", "gets"]  # both replies have come, and the first of them is read

    def profile(frame: FrameType, what: str, argument: object) -> None:
        del frame
        if what == "c_return" and getattr(argument, "__name__", "") == parsed[0]:
            parsed.pop(0)
            if not parsed:
                sys.setprofile(None)
                raise Broken

    sys.setprofile(profile)
    try:
        with pytest.raises(Broken):
            shared.flush([Command(("GET", "a")), Command(("GET", "b"))])
    finally:
        sys.setprofile(None)

    assert shared.flush([Command(("GET", "b")), Command(("GET", "a"))]) == [b"2", b"1"]


def test_part_goes_out_while_the_next_one_is_made(shared: Shared, valkey: Redis) -> None:
    def more() -> Iterator[list[Command]]:
        yield [Command(("SET", "a", "1")), Command(("GET", "a"))]
        until = time.monotonic() + DEADLINE_SECONDS
        while valkey.get("a") is None and time.monotonic() < until:
            time.sleep(0.005)
        yield [Command(("SET", "b", valkey.get("a") or b"not yet"))]
        yield [Command(("GET", "b"))]

    replies = shared.flush([Command(("GET", "a"))], more=more())

    assert replies == [None, True, b"1", True, b"1"]
    assert shared.flushes == 1


def test_what_is_sent_in_parts_is_whole_and_in_few_of_them() -> None:
    parts = list(in_parts(range(500)))

    assert [n for part in parts for n in part] == list(range(500))
    assert list(map(len, parts)) == [4, 8, 16, 32, 64, 128, 248]
    assert list(in_parts([])) == []


def test_all_parts_are_sent_again_where_the_connection_broke(shared: Shared, valkey: Redis) -> None:
    (mine,) = shared.flush([MY_ID])

    def more() -> Iterator[list[Command]]:
        valkey.client_kill_filter(_id=mine)
        yield [Command(("INCR", "n"))]
        yield [Command(("GET", "n"))]

    first, count, still = shared.flush([MY_ID], more=more())

    assert first != mine
    assert (count, still) == (1, b"1")
    assert shared.flushes == 3


def test_refused_script_of_a_part_is_sent_again_with_its_text(shared: Shared) -> None:
    script = Script("one", "return {KEYS[1], 1}", "0" * 40)

    replies = shared.flush([MY_ID], more=iter([[Command.run(script, (b"k",), ())]]))

    assert replies[1] == [b"k", 1]


def test_parts_are_sent_whole_where_they_may_belong_to_several_nodes(
    valkey_cluster: RedisCluster,
) -> None:
    shared = Shared(lambda: valkey_cluster, clock=SystemClock())
    parts = iter([[Command(("SET", "b", "2"))], [Command(("GET", "b")), Command(("GET", "a"))]])

    assert shared.flush([Command(("SET", "a", "1"))], more=parts) == [True, True, b"2", b"1"]


def test_connection_is_left_where_a_part_cannot_be_made(valkey: Redis) -> None:
    seat = Wire(valkey).seat([("SET", "a", "1")])
    assert seat is not None

    with pytest.raises(ZeroDivisionError):
        seat.exchange([("SET", "a", "1")], ([("GET", str(1 / n))] for n in (0,)))

    assert seat.exchange([("GET", "a")]) == [b"1"]


def test_what_is_done_meanwhile_is_done_between_the_send_and_the_reply(valkey: Redis) -> None:
    seat = Wire(valkey).seat([("BLPOP", "list", 0)])
    assert seat is not None
    assert seat.exchange([("ECHO", "a")]) == [b"a"]

    # The reply is there only because of it.
    reply = seat.ask(PACK(("BLPOP", "list", 0)), lambda: valkey.rpush("list", 1), rested=True)

    assert reply == [b"list", b"1"]


def test_connection_is_left_where_what_is_done_meanwhile_fails(valkey: Redis) -> None:
    seat = Wire(valkey).seat([("SET", "a", "1")])
    assert seat is not None
    assert seat.exchange([("SET", "a", "1")]) == [True]

    with pytest.raises(ZeroDivisionError):
        seat.ask(PACK(("SET", "a", "2")), lambda: 1 / 0, rested=True)

    assert seat.exchange([("ECHO", "a")]) == [b"a"]


def test_nothing_is_sent_at_once_where_no_connection_is_at_hand(valkey: Redis) -> None:
    seat = Wire(valkey).seat([("SET", "a", "1")])
    assert seat is not None

    assert seat.ask(PACK(("SET", "a", "1")), list, rested=True) is AWAY
    assert valkey.get("a") is None


def test_client_of_a_class_of_its_own_keeps_its_pipeline(valkey: Redis) -> None:
    class Own(Redis):
        """Whoever overrides something means it."""

    client = Own(port=valkey.get_connection_kwargs()["port"])
    commands = [("GET", "k")]

    assert Wire(client).seat(commands) is None
    assert Wire(valkey).seat(commands) is not None
    client.close()


def test_commands_of_one_node_of_a_cluster_take_its_seat(valkey_cluster: RedisCluster) -> None:
    wire = Wire(valkey_cluster)
    some: list[tuple[bytes | str | int, ...]] = [
        ("SET", "a", "1"),
        ("SET", b"b", "2"),
        ("GET", "a"),
    ]

    seat = wire.seat(some)

    assert seat is not None
    assert seat.exchange(some) == [True, True, b"1"]
    assert wire.seat([("EVALSHA", "0" * 40, 1, "a")]) is seat
    assert wire.seat(some * 100) is None


# Counts, because times belong to a machine.


def calls_of(run: Callable[[], object]) -> int:
    """Count the calls of Python's and of C functions on this thread."""
    calls = 0

    def count(frame: FrameType, what: str, argument: object) -> None:
        nonlocal calls
        del frame, argument
        calls += what in {"call", "c_call"}

    sys.setprofile(count)
    try:
        run()
    finally:
        sys.setprofile(None)
    return calls


def test_hit_costs_so_many_calls_of_functions(valkey: Redis, valkey_url: str) -> None:
    assert valkey.dbsize() == 0
    box = Fleet(valkey_url).box(SystemClock())
    cache: Any = box.invoke(900)  # Any: as a handler has it
    load = loader("v")
    for _ in range(2):
        cache.get_or_load("k", load, ttl_seconds=120)
    box.container.local.drop("~/k")
    cache.get("k")

    local = calls_of(lambda: cache.get_or_load("k", load, ttl_seconds=120))
    box.container.local.drop("~/k")
    shared_hit = calls_of(lambda: cache.get_or_load("k", load, ttl_seconds=120))
    box.container.local.drop("~/k")
    shared_get = calls_of(lambda: cache.get("k"))
    flush = calls_of(lambda: box.container.shared.flush([Command(("GET", "k"))]))

    assert load.calls == 1
    assert local <= MOST_CALLS_OF_A_LOCAL_HIT
    assert shared_hit <= MOST_CALLS_OF_A_SHARED_HIT
    assert shared_get <= MOST_CALLS_OF_A_SHARED_GET
    assert flush <= MOST_CALLS_OF_A_FLUSH


def test_threads_that_flush_at_once_get_their_own_replies(shared: Shared) -> None:
    start = threading.Barrier(8)

    def mine(number: int) -> bool:
        start.wait(DEADLINE_SECONDS)
        key = f"key-{number}"
        return all(
            shared.flush([Command(("SET", key, turn)), Command(("GET", key))])
            == [True, str(turn).encode()]
            for turn in range(50)
        )

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(mine, range(8)))
