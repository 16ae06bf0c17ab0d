"""What of a batch may be claimed together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sekali.items import Item
from sekali.settling import delete, failed_verdict, give_back
from sekali.waves import BEHIND, WAVE_RECORDS, fifo_waves, standard_waves

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sekali.items import Verdict


def item(job_id: str, *, group: str = "", verdict: Verdict | None = None) -> Item:
    attributes = {"MessageGroupId": group} if group else None
    return Item(raw={"attributes": attributes}, message_id=job_id, id=job_id, verdict=verdict)


def walked(waves: Iterator[list[Item]], judge: Callable[[Item], Verdict | None]) -> list[list[str]]:
    """Take every wave as a batch does, and return the ids of each."""
    seen = []
    for wave in waves:
        seen.append([one.id for one in wave])
        for one in wave:
            one.verdict = judge(one)
    return seen


def fine(_: Item) -> Verdict:
    return delete("done")


def test_standard_wave_holds_up_to_500_in_order() -> None:
    items = [item(str(number)) for number in range(2 * WAVE_RECORDS + 1)]

    seen = walked(standard_waves(items), fine)

    assert [len(wave) for wave in seen] == [WAVE_RECORDS, WAVE_RECORDS, 1]
    assert [one for wave in seen for one in wave] == [one.id for one in items]


def test_standard_wave_leaves_out_what_is_decided_or_follows() -> None:
    first, bad, repeat = item("a"), item("b", verdict=give_back("bad")), item("a")
    repeat.leader = first

    seen = walked(standard_waves([first, bad, repeat]), fine)

    assert seen == [["a"]]


def test_fifo_waves_are_the_heads_of_all_groups() -> None:
    items = [item(f"{group}{n}", group=group) for n in range(2) for group in "xy"]

    seen = walked(fifo_waves(items), fine)

    assert seen == [["x0", "y0"], ["x1", "y1"]]


def test_fifo_group_stops_at_a_head_that_is_not_settled_and_says_so() -> None:
    items = [item(f"{group}{n}", group=group) for n in range(3) for group in "xy"]

    seen = walked(
        fifo_waves(items), lambda one: give_back("later") if one.id == "x1" else fine(one)
    )

    assert seen == [["x0", "y0"], ["x1", "y1"], ["y2"]]
    assert items[4].verdict == give_back(BEHIND)


def test_fifo_group_goes_on_after_a_dead_letter() -> None:
    items = [item("x0", group="x"), item("x1", group="x")]

    seen = walked(
        fifo_waves(items), lambda one: failed_verdict(b"") if one.id == "x0" else fine(one)
    )

    assert seen == [["x0"], ["x1"]]


def test_fifo_head_without_a_verdict_stops_its_group() -> None:
    items = [item("x0", group="x"), item("x1", group="x")]

    seen = walked(fifo_waves(items), lambda _: None)

    assert seen == [["x0"]]
    assert [one.verdict for one in items] == [give_back("unsettled"), give_back(BEHIND)]


def test_fifo_bad_record_in_front_does_not_stop_its_group() -> None:
    bad = item("bad", group="x", verdict=failed_verdict(b""))

    seen = walked(fifo_waves([bad, item("x1", group="x")]), fine)

    assert seen == [["x1"]]


def test_fifo_repeat_waits_for_another_group_and_takes_its_verdict() -> None:
    first, repeat = item("same", group="x"), item("same", group="y")
    repeat.leader = first
    items = [item("x0", group="x"), first, repeat, item("y1", group="y")]

    seen = walked(fifo_waves(items), fine)

    assert seen == [["x0"], ["same"], ["y1"]]
    assert repeat.verdict == delete("done")


def test_fifo_repeat_of_what_is_not_settled_stops_its_own_group_too() -> None:
    first, repeat = item("same", group="x"), item("same", group="y")
    repeat.leader = first
    behind = item("y1", group="y")

    seen = walked(fifo_waves([first, repeat, behind]), lambda _: give_back("later"))

    assert seen == [["same"]]
    assert [repeat.verdict, behind.verdict] == [give_back("later"), give_back(BEHIND)]


def test_fifo_waves_are_cut_at_500_heads() -> None:
    items = [item(str(number), group=str(number)) for number in range(WAVE_RECORDS + 1)]

    seen = walked(fifo_waves(items), fine)

    assert [len(wave) for wave in seen] == [WAVE_RECORDS, 1]


def test_records_without_a_group_are_one_group() -> None:
    seen = walked(fifo_waves([item("a"), item("b")]), fine)

    assert seen == [["a"], ["b"]]
