"""A value whose tag has fallen is served by no call, whichever tier and way it came by."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from sekali.lifetimes import Loaded
from tests.cache_kit import Box, Fleet, loader

if TYPE_CHECKING:
    from collections.abc import Callable

    from redis import Redis

    from sekali.tiered import Tiered

    Call = Callable[[Tiered], object]


@pytest.fixture
def fleet(valkey: Redis, valkey_url: str) -> Fleet:
    assert valkey.dbsize() == 0
    return Fleet(valkey_url)


def knowing(fleet: Fleet) -> Box:
    """Return a container that knows the tag's mark, and holds no value of k."""
    box = fleet.box()
    box.invoke().get_or_load("other", loader(1), tags=["t"])
    return box


def all_of(keys: list[str]) -> dict[str, str]:
    return dict.fromkeys(keys, "new")


CALLS: dict[str, tuple[Call, object]] = {
    "get": (lambda cache: cache.get("k"), None),
    "get many": (lambda cache: cache.get_many(["k"]), {}),
    "load": (lambda cache: cache.get_or_load("k", loader("new"), tags=["t"]), "new"),
    "load, tag not named": (lambda cache: cache.get_or_load("k", loader("new")), "new"),
    "load many": (lambda cache: cache.get_or_load_many(["k"], all_of, tags=["t"]), {"k": "new"}),
    "load many, not named": (lambda cache: cache.get_or_load_many(["k"], all_of), {"k": "new"}),
}


@pytest.mark.parametrize("second", CALLS)
@pytest.mark.parametrize("first", CALLS)
def test_look_at_a_value_whose_tag_fell_leaves_nothing_for_the_next_call(
    fleet: Fleet, first: str, second: str
) -> None:
    """`get` and `get_or_load_many` kept it here, where the next hit was served it."""
    other = fleet.box().invoke()
    other.get_or_load("k", loader("old"), tags=["t"])
    other.invalidate(tags=["t"])
    cache = knowing(fleet).invoke()

    CALLS[first][0](cache)
    got = CALLS[second][0](cache)

    found = {"k": "new"} if "many" in second else "new"
    assert got == (found if "load" in first else CALLS[second][1])


def test_tag_that_fell_while_a_container_was_away_makes_a_look_up_of_many_load(
    fleet: Fleet,
) -> None:
    box, other = fleet.box(), fleet.box()
    keys = ["a", "b"]
    box.invoke().get_or_load_many(keys, lambda keys: dict.fromkeys(keys, "old"), tags=["t"])
    other.invoke().invalidate(tags=["t"])

    got = box.invoke().get_or_load_many(keys, all_of, tags=["t"])

    assert got == {"a": "new", "b": "new"}


@pytest.mark.parametrize("act", CALLS)
@pytest.mark.parametrize("local", [True, False])
def test_strict_call_asks_for_each_mark_of_what_it_is_about_to_serve(
    fleet: Fleet, act: str, local: Any
) -> None:
    """It believed marks that this container knew from before: the tag's fall was not seen."""
    box, other = knowing(fleet), fleet.box().invoke()
    cache = box.invoke()
    cache.get("other")
    other.get_or_load("k", loader("old"), tags=["t"])
    if local:
        assert cache.get("k") == "old"
    other.invalidate(tags=["t"])

    got = strictly(cache, act)

    assert got == CALLS[act][1]


def strictly(cache: Tiered, act: str) -> object:
    if act.startswith("get"):
        many = cache.get_many(["k"], level="strict")
        return many if "many" in act else cache.get("k", level="strict")
    tags = [] if "not named" in act else ["t"]
    if "many" in act:
        return cache.get_or_load_many(["k"], all_of, tags=tags, level="strict")
    return cache.get_or_load("k", loader("new"), tags=tags, level="strict")


def test_value_whose_chosen_tag_was_not_known_here_is_local_after_one_look_up(
    fleet: Fleet,
) -> None:
    fleet.box().invoke().get_or_load("k", lambda: Loaded("v", tags=["t"]))
    box = fleet.box()
    cache = box.invoke()
    cache.get("another")

    assert cache.look_up("k", loader("x")).source == "shared"
    assert cache.look_up("k", loader("x")).source == "local"


def test_own_invalidation_after_another_containers_is_not_undone_by_the_log(fleet: Fleet) -> None:
    """Its own entry was passed over, so the other one's older mark became the tag's again."""
    box = fleet.box()
    cache = box.invoke()
    cache.get("to find the log's end")
    fleet.box().invoke().invalidate(tags=["t"])
    fleet.box().invoke().get_or_load("k", loader("old"), tags=["t"])

    cache.invalidate(tags=["t"])

    assert box.invoke().get("k") is None


def test_look_at_the_log_from_before_an_invocation_does_not_count_as_its_own(fleet: Fleet) -> None:
    """Another thread had it under way, and so it missed what fell in between."""
    box = fleet.box()
    for _ in range(2):
        box.invoke().get_or_load("k", loader("old"))
    coherence = box.container.coherence
    glance = coherence.glance()
    (reply,) = box.container.shared.flush([glance.command], operation="tail")
    fleet.box().invoke().invalidate(["k"])

    cache = box.invoke()
    coherence.glance()  # its own, which is still under way
    coherence.apply(glance, reply)

    assert cache.get_or_load("k", loader("new")) == "new"


def test_mark_that_was_asked_for_before_a_newer_one_came_is_not_believed(fleet: Fleet) -> None:
    coherence = fleet.box().container.coherence
    asked = coherence.moves()
    coherence.learn("t", "newer")

    coherence.learn("t", "older", since=asked)

    assert coherence.doubtful({"t": "older"}) == ["t"]
    assert coherence.doubtful({"t": "newer"}) == ["t"]


def test_mark_that_was_asked_for_during_an_invalidation_is_not_believed_after_it(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer was read before the new mark was set, and taken in after the invalidation."""
    box = knowing(fleet)
    cache, coherence, shared = box.invoke(), box.container.coherence, box.container.shared
    fleet.box().invoke().get_or_load("k", loader("old"), tags=["t"])
    cache.get("other")
    asked = []
    with monkeypatch.context() as patch:
        honest = shared.flush

        def flush(*args: Any, **options: Any) -> list[Any]:  # Any: as Shared.flush
            patch.undo()
            asked.append((coherence.moves(), honest([coherence.ask_mark("t")[0]])[0].decode()))
            return honest(*args, **options)

        patch.setattr(shared, "flush", flush)
        cache.invalidate(tags=["t"])

    ((moves, older),) = asked
    coherence.learn("t", older, since=moves)

    assert cache.get("k") is None


@pytest.mark.parametrize("follower", ["a third one", "the one that is late"])
@pytest.mark.parametrize("how", ["get", "get many", "load, tag not named"])
def test_two_that_invalidate_a_tag_at_once_may_reach_the_log_in_the_other_order(
    fleet: Fleet, how: str, follower: str
) -> None:
    """The last entry names the mark that a value from between the two still carries."""
    early, late, third = fleet.box(), fleet.box(), fleet.box()
    for box in (early, late, third):
        box.invoke().get_or_load("other", loader(1), tags=["t"])
    marks = {}
    for box in (late, early):  # the late one sets its mark first
        coherence = box.container.coherence
        commands, marks[id(box)] = coherence.tag_commands(["t"])
        coherence.learn("t", marks[id(box)][0].mark)
        box.container.shared.flush(commands, operation="invalidate")
        if box is late:
            fleet.box().invoke().get_or_load("k", loader("between"), tags=["t"])
    for box in (early, late):
        append = box.container.coherence.append(marks[id(box)])
        box.container.shared.flush([append], operation="invalidate")

    reader = third if follower == "a third one" else late
    got = CALLS[how][0](reader.invoke())

    assert got == CALLS[how][1]


def test_tag_that_fell_twice_while_a_container_was_away_costs_one_round_trip(fleet: Fleet) -> None:
    fleet.warm_scripts()
    box = knowing(fleet)
    for _ in range(2):
        fleet.box().invoke().invalidate(tags=["t"])
    fleet.box().invoke().get_or_load("k", loader("new"), tags=["t"])

    before = box.flushes
    got = box.invoke().get_or_load("k", loader("newer"), tags=["t"])

    assert (got, box.flushes - before) == ("new", 1)
