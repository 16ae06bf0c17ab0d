"""A history with a limit, which is whole or says that it is not."""

from __future__ import annotations

import pytest

from infra.local.aws_calls import AwsCall, AwsCalls
from infra.local.kept import HistoryCut, Kept


def test_what_is_within_the_limit_is_handed_out_whole_and_in_order() -> None:
    kept: Kept[int] = Kept("numbers", limit=3)

    for number in range(3):
        kept.add(number)

    assert kept.all() == [0, 1, 2]


def test_history_that_was_cut_is_never_taken_for_a_whole_one() -> None:
    kept: Kept[int] = Kept("numbers", limit=3)

    for number in range(1_000):
        kept.add(number)

    assert len(kept) == 3
    with pytest.raises(HistoryCut) as cut:
        kept.all()
    assert (cut.value.what, cut.value.limit, cut.value.dropped) == ("numbers", 3, 997)


def test_limit_that_is_lowered_lets_the_oldest_go() -> None:
    kept: Kept[int] = Kept("numbers", limit=3)
    for number in range(3):
        kept.add(number)

    kept.limit(2)

    assert len(kept) == 2
    with pytest.raises(HistoryCut):
        kept.all()


def test_calls_have_a_limit_and_are_heard_all_the_same() -> None:
    calls, heard = AwsCalls(kept=2), list[AwsCall]()
    calls.listen(heard.append)
    call = AwsCall(service="sqs", operation="ReceiveMessage", status=200, at=0.0, items=())

    for _ in range(3):
        calls.add(call)

    assert len(heard) == 3
    with pytest.raises(HistoryCut, match="calls"):
        calls.all()
