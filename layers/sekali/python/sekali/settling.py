"""Decide what becomes of a message: the answer tables of PROTOCOL §4 as pure functions.

A message has four fates. It is *deleted* when its id is settled; it is *deferred* by a delayed copy
that spends no attempt; it becomes a *dead letter* with a reason; or it is *returned* to its queue
as a failure. The last one is the default: whatever is not proven settled goes back.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from sekali import codec
from sekali.answers import (
    Failed,
    Finished,
    FinishFailed,
    FinishMismatch,
    FinishSuperseded,
    GivenBack,
    Mismatch,
    Quarantined,
)
from sekali.errors import ValueUnreadable
from sekali.items import Verdict

if TYPE_CHECKING:
    from sekali.answers import ClaimAnswer, FinishAnswer
    from sekali.items import Ending

MISMATCH = "payload_mismatch"
SUPERSEDED = "superseded"
UNCONFIRMED = "unconfirmed"


@cache
def delete(reason: str) -> Verdict:
    """Let the message go: its id is settled."""
    return Verdict(fate="delete", reason=reason)


@cache
def give_back(reason: str) -> Verdict:
    """Return the message to its queue as a failure."""
    return Verdict(fate="return", reason=reason)


def defer(reason: str, seconds: float) -> Verdict:
    """Try the message again after `seconds`, without spending an attempt."""
    return Verdict(fate="defer", reason=reason, seconds=seconds)


def encode_error(reason: str, error: BaseException | None = None) -> bytes:
    """Write what a record and a dead letter keep of a failure: reason, class and cut text."""
    described = {"reason": reason}
    if error is not None:
        described["type"] = type(error).__name__
        described["text"] = _text_of(error)[:1000]
    return codec.encode(described)


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001  a user's class: its text is not worth the record's outcome
        return "an error without a readable text"


def failed_verdict(error: bytes, *, fence: int = 0, attempts: int | None = None) -> Verdict:
    """Dead-letter a job whose record says that it failed for good."""
    described = _described(error)
    return Verdict(
        fate="dead_letter",
        reason=str(described.get("reason", "failed")),
        error_type=described.get("type"),
        error=described.get("text"),
        fence=fence,
        attempts=attempts,
    )


def mismatch_verdict(*, fence: int = 0) -> Verdict:
    """Dead-letter a message whose id is known with another payload."""
    return Verdict(
        fate="dead_letter",
        reason=MISMATCH,
        error="this id was already used with another payload",
        fence=fence,
    )


def claim_verdict(answer: ClaimAnswer) -> Verdict | None:
    """Return the verdict of a claim's answer that needs nothing more, else None."""
    match answer:
        case Failed(error=error, fence=fence):
            return failed_verdict(error, fence=fence)
        case Mismatch():
            return mismatch_verdict()
        case Quarantined(attempts=attempts, error=error, fence=fence):
            last = _described(error)
            return Verdict(
                fate="dead_letter",
                reason="quarantined",
                error_type=last.get("type"),
                error=last.get("text"),
                attempts=attempts,
                fence=fence,
            )
        case _:
            return None


def finish_verdict(ending: Ending, answer: FinishAnswer | None) -> Verdict:
    """Return the verdict of a finish's answer; None is no answer at all (table in PROTOCOL §4)."""
    match answer:
        case Finished():
            return delete("done")
        case FinishFailed(error=error):
            if ending.then is not None and ending.then.fate == "dead_letter":
                return ending.then
            return failed_verdict(error, fence=ending.fence)
        case FinishMismatch():
            return mismatch_verdict(fence=ending.fence)
        case FinishSuperseded():
            return defer(SUPERSEDED, 0.0)
        case GivenBack(cooling_seconds=seconds):
            return ending.then or defer("retry", seconds)
        case None:
            return _unanswered(ending)


def degraded_verdict(ending: Ending) -> Verdict:
    """Return the verdict of a table claim: what the table holds decides, no cache is asked."""
    if not ending.recorded:
        return ending.then or defer("retry", 0.0)
    return _unanswered(ending)


def _unanswered(ending: Ending) -> Verdict:
    if not ending.recorded:
        return give_back(UNCONFIRMED)
    if ending.outcome == "X":
        return ending.then or failed_verdict(ending.result, fence=ending.fence)
    return delete("done")


def _described(error: bytes) -> dict[str, str]:
    try:
        described = codec.decode(error)
    except ValueUnreadable:
        return {}
    if not isinstance(described, dict):
        return {}
    return {str(name): str(text) for name, text in described.items()}
