"""The library with one protection taken out: what each run of the suite must notice.

A mutant patches the library inside the function, never in its files. `CHAOS_MUTANT` names it.
"""

from __future__ import annotations

import hashlib
import threading
import time
from typing import TYPE_CHECKING, Any, Final

from sekali import claims, conditions, scripts
from sekali.scripts import Script

if TYPE_CHECKING:
    from collections.abc import Callable

# A script, and in it a comparison with what stands there instead.
_SCRIPTS: Final[dict[str, tuple[str, tuple[tuple[str, str], ...]]]] = {
    "finish-ignores-the-tombstone": ("FINISH", (("and key[4] == '0'", ""),)),
    "finish-without-the-fence": (
        "FINISH",
        (
            ("local live = mine and", "local live = true or"),
            ("if not recorded and (superseded(", "if false and (superseded("),
        ),
    ),
    "fence-without-the-clock": ("CLAIM", ((", now * 1000))", "))"),)),
    "claim-beside-a-holder": ("CLAIM", (("if lease then -- row 7", "if false then -- row 7"),)),
    "no-take-back": ("CLAIM", (("attempts = attempts - 1", "attempts = attempts"),)),
}


def apply(mutant: str) -> None:
    """Take the protection out of this process.

    Raises:
        KeyError: There is no such mutant.
    """
    changed = script(mutant)
    if changed is None:
        _PATCHES[mutant]()
    else:
        name = _SCRIPTS[mutant][0]
        setattr(claims, name, changed)
        if name == "CLAIM":  # that of a load is made of it
            vars(claims)["LOAD"] = changed


def names() -> list[str]:
    """Name every mutant."""
    return sorted({*_SCRIPTS, *_PATCHES})


def script(mutant: str) -> Script | None:
    """Answer the changed script of a mutant, if that is what it changes."""
    if mutant not in _SCRIPTS:
        return None
    name, changes = _SCRIPTS[mutant]
    honest: Script = getattr(scripts, name)
    source = honest.source
    for old, new in changes:
        if source.count(old) != 1:
            raise ValueError(f"{mutant}: {old!r} does not stand there once")
        source = source.replace(old, new)
    sha = hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest()
    return Script(honest.name, source, sha)


def _no_finality() -> None:
    exists = conditions.Part("any item", "attribute_exists(pk)")
    nothing = conditions.Part("no item", "attribute_not_exists(pk)")
    conditions.OUTCOME = conditions.any_of("outcome", nothing, exists)


def _finish_before_the_table() -> None:
    from sekali.concluding import Concluding

    finish, record = Concluding._finish, Concluding._record  # noqa: SLF001 - a mutant

    def late(self: Concluding, items: Any) -> None:
        finish(self, items)
        record(self, items)

    _patch(Concluding, "_finish", late)
    _patch(Concluding, "_record", lambda _, __: None)


def _unanswered_is_recorded() -> None:
    from sekali.store import Store
    from sekali.store_rows import Accepted

    honest = Store.record_many

    def record_many(self: Store, outcomes: Any, **options: Any) -> Any:
        answers = honest(self, outcomes, **options)
        return [
            Accepted(outcome.fence, outcome.result) if isinstance(answer, Exception) else answer
            for outcome, answer in zip(outcomes, answers, strict=True)
        ]

    _patch(Store, "record_many", record_many)


def _nobody_asks_the_table() -> None:
    from sekali.batch import Batch

    _patch(Batch, "_has_reason_to_ask", lambda _, __: False)


def _copy_after_deletion() -> None:
    from sekali.outbox import Outbox

    honest = Outbox.send

    def send(self: Outbox, letters: Any, *, in_time: Callable[[], bool]) -> set[str]:
        def later() -> None:
            time.sleep(0.2)
            honest(self, letters, in_time=in_time)

        threading.Thread(target=later, daemon=True).start()
        return {letter.message_id for letter in letters}

    _patch(Outbox, "send", send)


def _deferral_spends_receives() -> None:
    from sekali.departures import Departures

    _patch(Departures, "_copy", lambda _, __, ___: None)


def _renews_after_thaw() -> None:
    from sekali.heartbeat import Heartbeat

    _patch(Heartbeat, "_still_alive", lambda _, lease: not lease.lost)


def _no_flush_beside() -> None:
    from sekali.ended import Ended

    _patch(Ended, "_arm", lambda _: None)


def _no_flush_between() -> None:
    from sekali.ended import Ended

    _patch(Ended, "send_if_due", lambda _: None)


def _no_sense_of_time() -> None:
    from sekali.durations import Durations

    _patch(Durations, "expected", lambda _, __: -1e9)


def _suspects_beside_others() -> None:
    from sekali import batch

    _patch(batch, "_is_suspect", lambda _: False)


def _waits_for_ever() -> None:
    from sekali import loading, single_flight

    _patch(loading, "bound_seconds", lambda _, __: 1e6)
    _patch(single_flight, "bound_seconds", lambda _, __: 1e6)


def _write_without_condition() -> None:
    from sekali.leases import HeldLease

    honest = HeldLease.condition

    def condition(self: HeldLease, *, typed: bool = False) -> dict[str, Any]:
        arguments = honest(self, typed=typed)
        expression = arguments["ConditionExpression"]
        arguments["ConditionExpression"] = f"{expression} OR attribute_exists(#sekali_f)"
        return arguments

    _patch(HeldLease, "condition", condition)


def _patch(owner: Any, name: str, value: Callable[..., Any]) -> None:
    """Replace what is there; a name that is not there any more would be a mutant without teeth."""
    if not hasattr(owner, name):
        raise AttributeError(f"{owner} has no {name}")
    setattr(owner, name, value)


_PATCHES: Final[dict[str, Callable[[], None]]] = {
    "copy-after-deletion": _copy_after_deletion,
    "deferral-spends-receives": _deferral_spends_receives,
    "finish-before-the-table": _finish_before_the_table,
    "heartbeat-renews-after-thaw": _renews_after_thaw,
    "loads-wait-for-ever": _waits_for_ever,
    "no-finality-in-the-table": _no_finality,
    "no-flush-beside": _no_flush_beside,
    "no-flush-between": _no_flush_between,
    "no-sense-of-time": _no_sense_of_time,
    "nobody-asks-the-table": _nobody_asks_the_table,
    "suspects-beside-others": _suspects_beside_others,
    "unanswered-is-recorded": _unanswered_is_recorded,
    "write-without-condition": _write_without_condition,
}
