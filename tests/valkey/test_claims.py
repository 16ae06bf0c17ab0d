"""The whole protocol through the door, for any text, on a single server and on a cluster."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sekali import scripts
from sekali.answers import (
    Acquired,
    Ask,
    Busy,
    Done,
    End,
    Finished,
    GivenBack,
    Lease,
    Lost,
    Renewed,
    Served,
    Terms,
    new_token,
)
from sekali.claims import Claims
from sekali.clock import SystemClock
from sekali.keys import Keyspace
from sekali.scripts import CLAIM
from sekali.shared import Shared

if TYPE_CHECKING:
    from redis import Redis
    from redis.cluster import RedisCluster

TERMS = Terms(
    lease_seconds=60.0,
    record_ttl_seconds=1_000.0,
    max_attempts=3,
    cooling_base_seconds=1.0,
    cooling_cap_seconds=10.0,
    born_ttl_seconds=2_000.0,
)
TEXTS = (
    "plain",
    "ünïcödé 日本語 🛫",
    "{braces}",
    "}{",
    "{other:1}:key:job/k",
    "spaces and\ttabs",
    "line\nbreak\r\n",
    "NUL\x00inside",
    "*5\r\n$3\r\nSET",
    "x" * 10_000,
    "é" * 512,
    " ",
    "%s %d '\"\\",
)
# What Serverless offers to scripts; and nothing that looks beyond the declared keys.
ALLOWED = {
    "HMGET", "HGET", "HSET", "GET", "GETEX", "SET", "DEL", "EXISTS", "PTTL", "PEXPIRE",
    "PEXPIRETIME", "ZADD", "ZREM", "XADD", "XRANGE", "XREVRANGE", "PUBLISH",
}  # fmt: skip


class Talk:
    """Ask through the door, as the worker does."""

    def __init__(self, client: Redis | RedisCluster) -> None:
        self.shared = Shared(lambda: client, clock=SystemClock())
        self.claims = Claims(Keyspace("t", 64), "ann")

    def ask(self, id_: str, key: str) -> Ask:
        return Ask(name="job", id=id_, key=key, payload_hash="h", token=new_token(), terms=TERMS)

    def claim(self, ask: Ask) -> object:
        [reply] = self.shared.flush([self.claims.claim(ask)])
        return self.claims.read_claim(ask, reply, 0.0)

    def acquire(self, ask: Ask) -> Lease:
        answer = self.claim(ask)
        assert isinstance(answer, Acquired)
        return answer.lease

    def end(self, lease: Lease, result: bytes = b"42") -> End:
        return End(
            ask=lease.ask, token=lease.token, fence=lease.fence, outcome="D", recorded=False,
            result=result, header=b"%016d|" % lease.fence, value_ttl_seconds=30.0,
        )  # fmt: skip

    def finish(self, end: End) -> object:
        [reply] = self.shared.flush([self.claims.finish(end)])
        return self.claims.read_finish(end, reply)

    def renew(self, lease: Lease) -> object:
        [reply] = self.shared.flush([self.claims.renew(lease, lease_seconds=30.0, started=True)])
        return self.claims.read_renew(lease, reply, 1.0)


@pytest.fixture(params=["single", "cluster"])
def talk(request: pytest.FixtureRequest) -> Talk:
    """Talk to a single server, and to a cluster."""
    name = "valkey" if request.param == "single" else "valkey_cluster"
    return Talk(request.getfixturevalue(name))


@pytest.mark.parametrize("text", TEXTS)
def test_any_text_can_be_a_key_and_an_id(talk: Talk, text: str) -> None:
    lease = talk.acquire(talk.ask(text, text))

    busy = talk.claim(talk.ask("other id", text))
    renewed = talk.renew(lease)
    finished = talk.finish(talk.end(lease))

    assert isinstance(busy, Busy)
    assert busy.owner == "ann"
    assert renewed == Renewed(invalidated=False)
    assert finished == Finished(b"42", filled=True)
    assert talk.claim(talk.ask(text, text)) == Done(b"42")
    assert talk.claim(talk.ask("other id", text)) == Served(b"%016d|42" % lease.fence)


def test_texts_do_not_meet(talk: Talk) -> None:
    answers = [talk.claim(talk.ask(text, text)) for text in TEXTS]

    assert all(isinstance(answer, Acquired) for answer in answers)


def test_a_result_may_hold_any_bytes(talk: Talk) -> None:
    result = bytes(range(256)) * 300

    lease = talk.acquire(talk.ask("id", "key"))
    talk.finish(talk.end(lease, result))

    assert talk.claim(talk.ask("id", "key")) == Done(result)
    assert talk.claim(talk.ask("other", "key")) == Served(b"%016d|" % lease.fence + result)


def test_an_invalidation_is_told_whether_the_key_was_known(talk: Talk) -> None:
    talk.acquire(talk.ask("id", "key"))

    replies = talk.shared.flush(
        [talk.claims.invalidate("job", "key"), talk.claims.invalidate("job", "unknown")]
    )

    assert [talk.claims.read_invalidate(reply) for reply in replies] == [True, False]


def test_a_batch_is_claimed_and_finished_in_two_flushes(talk: Talk) -> None:
    asks = [talk.ask(f"id-{number}", f"key-{number}") for number in range(100)]
    talk.finish(talk.end(talk.acquire(talk.ask("warm", "warm"))))
    before = talk.shared.flushes

    replies = talk.shared.flush([talk.claims.claim(ask) for ask in asks])
    answers = [
        talk.claims.read_claim(ask, reply, 0.0) for ask, reply in zip(asks, replies, strict=True)
    ]
    ends = [talk.end(answer.lease) for answer in answers if isinstance(answer, Acquired)]
    finished = talk.shared.flush([talk.claims.finish(end) for end in ends])

    assert talk.shared.flushes - before == 2
    assert len(finished) == 100


def test_a_lease_counts_from_before_its_claim_was_sent(talk: Talk) -> None:
    ask = talk.ask("id", "key")
    [reply] = talk.shared.flush([talk.claims.claim(ask)])

    answer = talk.claims.read_claim(ask, reply, 100.0)

    assert isinstance(answer, Acquired)
    assert answer.lease.expires_at == 160.0
    talk.renew(answer.lease)
    assert (answer.lease.expires_at, answer.lease.started) == (31.0, True)


def test_a_lost_lease_says_so(talk: Talk) -> None:
    lease = talk.acquire(talk.ask("id", "key"))
    give_back = replace(talk.end(lease), outcome="U")

    assert talk.finish(give_back) == GivenBack(0.0)
    assert talk.renew(lease) == Lost("ended", "ann")
    assert lease.lost


@pytest.mark.parametrize(
    "reply", [[], [b"unknown"], [b"done"], [b"busy", 1], None, [b"lost", b"never", b""]]
)
def test_an_answer_of_an_unknown_shape_is_refused(reply: list[bytes | int | None]) -> None:
    claims = Claims(Keyspace("t", 64), "ann")
    ask = Ask(name="job", id="i", key="k", payload_hash="h", token="t", terms=TERMS)
    lease = Lease(ask=ask, fence=1, expires_at=0.0)

    with pytest.raises(TypeError):
        claims.read_claim(ask, reply, 0.0)
    with pytest.raises(TypeError):
        claims.read_renew(lease, reply, 0.0)


def test_scripts_use_only_what_serverless_allows_and_only_declared_keys() -> None:
    used = set()
    for path in Path(scripts.__file__).parent.glob("*.lua"):
        for command, key in re.findall(r"redis\.p?call\('(\w+)', ([\w\[\]]+)", path.read_text()):
            used.add(command)
            assert key == "key" or re.fullmatch(r"KEYS\[\d\]", key), (path.name, command, key)

    assert used - ALLOWED == set()
    assert len(used) > 10


def test_every_script_says_its_keys_arguments_answers_and_race() -> None:
    for path in Path(scripts.__file__).parent.glob("*.lua"):
        if path.stem == "words":
            continue
        head = path.read_text().partition("\n-- The race: ")
        assert head[2], path.name
        assert re.search(r"^-- KEYS .*^-- ARGV .*^-- Returns ", head[0], re.MULTILINE | re.DOTALL)


def test_tokens_are_never_the_same() -> None:
    assert len({new_token() for _ in range(1_000)}) == 1_000
    assert re.fullmatch(r"[0-9a-f]{32}", new_token())


def test_what_is_sent_is_the_name_of_the_script_and_not_its_text() -> None:
    claims = Claims(Keyspace("t", 64), "ann")
    ask = Ask(name="job", id="i", key="k", payload_hash="h", token="t", terms=TERMS)

    command = claims.claim(ask)

    slot = claims.keyspace.of("job", "i", "k")
    assert command.args[:3] == ("EVALSHA", CLAIM.sha, 6)
    assert command.args[3:9] == slot
    assert command.with_text()[:3] == ("EVAL", CLAIM.source, 6)
    assert command.with_text()[3:] == command.args[3:]
