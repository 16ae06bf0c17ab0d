"""Each cell of the answer tables of PROTOCOL §4."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sekali.answers import (
    Acquired,
    Ask,
    Busy,
    Done,
    Failed,
    Finished,
    FinishFailed,
    FinishMismatch,
    FinishSuperseded,
    GivenBack,
    Lease,
    Mismatch,
    Quarantined,
    Served,
    Terms,
)
from sekali.items import Ending
from sekali.settling import (
    claim_verdict,
    defer,
    degraded_verdict,
    encode_error,
    failed_verdict,
    finish_verdict,
    give_back,
    mismatch_verdict,
)

if TYPE_CHECKING:
    from sekali.answers import ClaimAnswer, FinishAnswer, Outcome
    from sekali.items import Fate, Verdict

ERROR = encode_error("permanent", ValueError("no such month"))
TERMS = Terms(
    lease_seconds=12,
    record_ttl_seconds=100,
    max_attempts=3,
    cooling_base_seconds=1,
    cooling_cap_seconds=10,
    born_ttl_seconds=100,
)
ASK = Ask(name="job", id="a", key="a", payload_hash="h", token="t", terms=TERMS)
ACQUIRED = Acquired(
    lease=Lease(ask=ASK, fence=7, expires_at=12),
    attempt=1,
    suspect=False,
    fresh=True,
    takeover=False,
    older=False,
    abandoned_owner="",
    born_ms=0,
)


def ending(outcome: Outcome, *, recorded: bool = False, then: Verdict | None = None) -> Ending:
    return Ending(outcome=outcome, token="t", fence=7, result=ERROR, recorded=recorded, then=then)


# The answers of claim.


@pytest.mark.parametrize(
    "answer",
    [Done(b"1"), Served(b"value"), ACQUIRED, Busy(1.0, "owner", 0.0, cooling=False, stale=None)],
    ids=lambda answer: type(answer).__name__,
)
def test_claim_that_needs_more_than_its_answer_has_no_verdict(answer: ClaimAnswer) -> None:
    verdict = claim_verdict(answer)

    assert verdict is None


def test_failed_claim_becomes_a_dead_letter_with_its_error_and_fence() -> None:
    verdict = claim_verdict(Failed(ERROR, 9))

    assert verdict is not None
    assert (verdict.fate, verdict.reason, verdict.fence) == ("dead_letter", "permanent", 9)
    assert (verdict.error_type, verdict.error) == ("ValueError", "no such month")


def test_mismatched_claim_becomes_a_dead_letter() -> None:
    verdict = claim_verdict(Mismatch())

    assert verdict is not None
    assert (verdict.fate, verdict.reason) == ("dead_letter", "payload_mismatch")


def test_quarantined_claim_becomes_a_dead_letter_with_its_last_error() -> None:
    verdict = claim_verdict(Quarantined(3, ERROR, "owner", 9))

    assert verdict is not None
    assert (verdict.fate, verdict.reason, verdict.fence) == ("dead_letter", "quarantined", 9)
    assert (verdict.attempts, verdict.error_type) == (3, "ValueError")


@pytest.mark.parametrize("error", [b"", b"{", b"[1]", b"null"])
def test_failure_whose_error_cannot_be_read_is_one_all_the_same(error: bytes) -> None:
    verdict = failed_verdict(error, fence=9)

    assert (verdict.fate, verdict.reason, verdict.fence) == ("dead_letter", "failed", 9)


def test_error_text_is_cut_before_it_is_kept() -> None:
    kept = encode_error("retry", ValueError("x" * 10_000))

    assert len(kept) < 1_100


# The answers of finish: one row for each, its columns D and S, X, and T, W and U.

TABLE: list[tuple[FinishAnswer | None, Fate, Fate, Fate]] = [
    (Finished(b"1", filled=True), "delete", "delete", "delete"),
    (FinishFailed(ERROR), "dead_letter", "dead_letter", "dead_letter"),
    (FinishSuperseded(), "defer", "defer", "defer"),
    (FinishMismatch(), "dead_letter", "dead_letter", "dead_letter"),
]
OUTCOMES: list[tuple[Outcome, int]] = [("D", 1), ("S", 1), ("X", 2), ("T", 3), ("W", 3), ("U", 3)]
CELLS = [
    pytest.param(outcome, row[0], row[column], id=f"{type(row[0]).__name__} {outcome}")
    for row in TABLE
    for outcome, column in OUTCOMES
]


@pytest.mark.parametrize(("outcome", "answer", "fate"), CELLS)
def test_answer_of_finish_decides_the_fate(
    outcome: Outcome, answer: FinishAnswer | None, fate: Fate
) -> None:
    verdict = finish_verdict(ending(outcome), answer)

    assert verdict.fate == fate


@pytest.mark.parametrize(
    ("outcome", "recorded", "fate"),
    [
        ("D", True, "delete"),
        ("S", True, "delete"),
        ("D", False, "return"),
        ("S", False, "return"),
        ("X", True, "dead_letter"),
        ("X", False, "return"),
        ("T", False, "return"),
        ("W", False, "return"),
        ("U", False, "return"),
    ],
)
def test_finish_without_an_answer_counts_only_what_is_recorded(
    outcome: Outcome, *, recorded: bool, fate: Fate
) -> None:
    verdict = finish_verdict(ending(outcome, recorded=recorded), None)

    assert verdict.fate == fate


def test_retry_is_deferred_by_its_cooling() -> None:
    verdict = finish_verdict(ending("T"), GivenBack(4.0))

    assert (verdict.fate, verdict.reason, verdict.seconds) == ("defer", "retry", 4.0)


@pytest.mark.parametrize(
    "then", [defer("out_of_time", 2.0), give_back("store_unavailable"), mismatch_verdict()]
)
@pytest.mark.parametrize("outcome", ["W", "U"])
def test_give_back_keeps_the_verdict_it_came_with(outcome: Outcome, then: Verdict) -> None:
    verdict = finish_verdict(ending(outcome, then=then), GivenBack(0.0))

    assert verdict == then


@pytest.mark.parametrize("outcome", ["W", "U"])
@pytest.mark.parametrize(
    ("answer", "fate"),
    [
        (Finished(b"1", filled=False), "delete"),
        (FinishFailed(ERROR), "dead_letter"),
        (FinishSuperseded(), "defer"),
        (FinishMismatch(), "dead_letter"),
        (None, "return"),
    ],
)
@pytest.mark.parametrize("then", [defer("out_of_time", 2.0), mismatch_verdict()])
def test_give_back_s_own_verdict_gives_way_to_a_better_answer(
    outcome: Outcome, answer: FinishAnswer | None, fate: Fate, then: Verdict
) -> None:
    verdict = finish_verdict(ending(outcome, then=then), answer)

    assert verdict.fate == fate


def test_failure_taken_over_from_the_table_keeps_the_row_s_fence() -> None:
    then = failed_verdict(ERROR, fence=99)

    answers = [FinishFailed(b"{}"), None]
    verdicts = [finish_verdict(ending("X", recorded=True, then=then), one) for one in answers]

    assert verdicts == [then, then]


def test_failure_answered_by_the_cache_has_the_cache_s_error() -> None:
    theirs = encode_error("permanent", KeyError("theirs"))

    verdict = finish_verdict(ending("D"), FinishFailed(theirs))

    assert (verdict.error_type, verdict.fence) == ("KeyError", 7)


# Without the cache.


@pytest.mark.parametrize(
    ("outcome", "recorded", "fate"),
    [
        ("D", True, "delete"),
        ("S", True, "delete"),
        ("X", True, "dead_letter"),
        ("T", False, "defer"),
        ("W", False, "defer"),
    ],
)
def test_table_claim_is_settled_by_what_the_table_holds(
    outcome: Outcome, *, recorded: bool, fate: Fate
) -> None:
    verdict = degraded_verdict(ending(outcome, recorded=recorded))

    assert verdict.fate == fate


def test_table_claim_given_back_keeps_the_verdict_it_came_with() -> None:
    verdict = degraded_verdict(ending("W", then=mismatch_verdict()))

    assert verdict == mismatch_verdict()
