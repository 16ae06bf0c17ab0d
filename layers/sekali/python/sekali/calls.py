"""Name what a call asks of the tiers, what they work with, and what they answer.

`call_of` checks every option before anything is sent: a word that is misspelt, or a key that is no
text, is an error of the caller's line and not a miss for ever.

`Call` and `Old` are made for every look-up, so they are tuples: a frozen dataclass of ten fields
takes twice as long to make (tests/benchmarks, "library: choices").
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Generic, Literal, NamedTuple, TypeVar, get_args

from sekali.errors import KeyInvalid, SettingInvalid
from sekali.lifetimes import Lifetime
from sekali.light_dataclass import dataclass
from sekali.local import PLAIN_PREFIX
from sekali.packing import PLAIN, Packing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sekali.answers import Terms
    from sekali.clock import Clock
    from sekali.coherence import Coherence
    from sekali.invocation import Invocation
    from sekali.lifetimes import Uniform
    from sekali.local import Local
    from sekali.telemetry import events

T = TypeVar("T")

Source = Literal["local", "shared", "loaded", "stale"]
Level = Literal["per_invocation", "strict", "ttl"]
Refresh = Literal["now", "end"]
OnTimeout = Literal["load", "raise"]

_LEVELS: Final = get_args(Level)
_REFRESHES: Final = get_args(Refresh)
_POLICIES: Final = get_args(OnTimeout)
_LENGTHS: Final = frozenset(
    {
        "ttl_seconds",
        "soft_ttl_seconds",
        "stale_if_error_seconds",
        "negative_ttl_seconds",
        "local_ttl_seconds",
    }
)


@dataclass(frozen=True, slots=True)
class Result(Generic[T]):
    """Hold a value, where it came from, and how long ago it was computed, in seconds."""

    value: T
    source: Source
    age_seconds: float


class Call(NamedTuple):
    """One call's options."""

    key: str
    scoped: str
    loader: Callable[[], Any]  # Any: whatever the caller caches
    lifetime: Lifetime
    tags: tuple[str, ...] = ()
    packing: Packing = PLAIN
    level: Level = "per_invocation"
    wait_seconds: float | None = None
    on_timeout: OnTimeout = "load"
    refresh: Refresh = "now"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiers:
    """What every passage of one invocation works with."""

    local: Local
    coherence: Coherence
    invocation: Invocation
    terms: Terms
    clock: Clock
    emit: Callable[[events.Event], None]
    uniform: Uniform


class Old(NamedTuple):
    """A value that is not fresh: what to fall back on. `trusted` says that the level vouches."""

    value: Any  # Any: whatever is cached
    fence: int
    age_seconds: float
    left_seconds: float
    source: Source
    trusted: bool = True


class ChosenMark(NamedTuple):
    """The mark of a tag that a loader chose, as it is after the load.

    `offered` is what it would have become if it had not been there. For `idle_seconds` at least, by
    the clock of the server that holds it, nobody set it.
    """

    mark: str
    offered: str
    idle_seconds: float


def call_of(
    key: str,
    loader: Callable[[], Any],  # Any: whatever the caller caches
    *,
    tags: Iterable[str] | None = (),
    level: Level | None = None,
    refresh: Refresh = "now",
    wait_seconds: float | None = None,
    on_timeout: OnTimeout = "load",
    packing: Packing = PLAIN,
    **lengths: float | None,
) -> Call:
    """Return the call that these options of `Tiered.look_up` ask for.

    Raises:
        KeyInvalid: the key or a tag is no text.
        SettingInvalid: an option has no value that it can have.
        TypeError: there is no such option, or the loader cannot be called.
    """
    if not isinstance(key, str):
        raise KeyInvalid("key", "must be text that is not empty", key)
    if not callable(loader):
        raise TypeError(f"the loader of {key!r} must be callable, got {loader!r}")
    if lengths and not lengths.keys() <= _LENGTHS:
        raise TypeError(f"there is no option {min(lengths.keys() - _LENGTHS)!r}")
    if wait_seconds is not None:
        _check_wait(wait_seconds)
    if level is None:
        level = "per_invocation"
    if level not in _LEVELS:
        raise _no_such("level", level, _LEVELS)
    if refresh not in _REFRESHES:
        raise _no_such("refresh", refresh, _REFRESHES)
    if on_timeout not in _POLICIES:
        raise _no_such("on_timeout", on_timeout, _POLICIES)
    if not isinstance(packing, Packing):
        raise SettingInvalid("packing", "must be a Packing", repr(packing))
    return Call(
        key=key,
        scoped=PLAIN_PREFIX + key,
        loader=loader,
        lifetime=Lifetime.checked(**lengths),
        tags=tags_of(tags) if tags else (),
        packing=packing,
        level=level,
        wait_seconds=wait_seconds,
        on_timeout=on_timeout,
        refresh=refresh,
    )


def tags_of(tags: Iterable[str] | None) -> tuple[str, ...]:
    """Return the tags, each once; one text is one tag, and None is none.

    Raises:
        KeyInvalid: one of them is no text.
    """
    return texts_of("tag", () if tags is None else tags)


def texts_of(what: str, texts: Iterable[str]) -> tuple[str, ...]:
    """Return the texts, each once; one text by itself is one, and not its letters.

    Raises:
        KeyInvalid: one of them is no text, or there is nothing to take them from.
    """
    if isinstance(texts, str):
        return (texts,)
    try:
        found = list(texts)
    except TypeError:
        raise KeyInvalid(f"{what}s", "must be texts", texts) from None
    for text in found:
        if not isinstance(text, str):
            raise KeyInvalid(what, "must be text that is not empty", text)
    return tuple(dict.fromkeys(found))


def _check_wait(seconds: object) -> None:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds >= 0:
        raise SettingInvalid("wait_seconds", "must be 0 or more", repr(seconds))


def _no_such(option: str, value: object, words: tuple[str, ...]) -> SettingInvalid:
    return SettingInvalid(option, f"must be one of {', '.join(words)}", repr(value))
