"""What is sent for the messages of a batch, and which of them come back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from sekali import warm
from sekali.answers import Acquired, Ask, Lease, new_token
from sekali.departures import Departures
from sekali.items import Item, Verdict
from sekali.message import decode
from sekali.outbox import Outbox
from sekali.settings import Settings
from sekali.settling import defer, delete, give_back, mismatch_verdict
from sekali.telemetry import events
from sekali.testing import FrozenClock
from sekali.waves import BEHIND
from tests.worker_world.faults import Script
from tests.worker_world.queue import DEAD_URL, FIFO, QUEUE_URL, FaultyQueueClient, Queue, Waiting

if TYPE_CHECKING:
    from sekali.telemetry.events import Event


class Desk:
    """Departures in front of a queue, with everything behind them left out."""

    def __init__(self, *, plan: Script | None = None, **overrides: Any) -> None:
        self.clock = FrozenClock()
        self.queue = Queue(now=self.clock.wall)
        self.told: list[Event] = []
        chosen = {
            "cache_url": "valkey://nowhere:6379",
            "table_name": "results",
            "queue_url": QUEUE_URL,
            "dead_letter_queue_url": DEAD_URL,
            "partial_batch": True,
            **overrides,
        }
        self.container = warm.Container(Settings(**chosen), emit=self.told.append, clock=self.clock)
        client: Any = FaultyQueueClient(self.queue, (plan or Script()).at)
        self.container.outbox = Outbox(lambda: client)
        self.invocation = self.container.invocation(owner="me", remaining_seconds=30.0)

    def item(
        self,
        verdict: Verdict | None,
        *,
        fence: int = 0,
        group: str | None = None,
        payload: object = None,
        age_seconds: float = 0.0,
        **fields: object,
    ) -> Item:
        """Receive one message and give it its verdict."""
        body = {"sekali": 1, "id": "a", "name": "job", "payload": payload or {"n": 1}, **fields}
        waiting = self.queue.send(json.dumps(body), group=group)
        waiting.sent_at -= age_seconds
        (raw,) = self.queue.receive([waiting])
        message = decode(raw, default_job=None)
        made = Item(
            raw=raw, message_id=raw["messageId"], message=message, name="job", id="a", key="a"
        )
        made.verdict = verdict
        if fence:
            made.answer = self.acquired(fence)
        return made

    def acquired(self, fence: int) -> Acquired:
        ask = Ask(
            name="job",
            id="a",
            key="a",
            payload_hash="h",
            token=new_token(),
            terms=self.container.default_terms(),
        )
        return Acquired(
            lease=Lease(ask=ask, fence=fence, expires_at=0.0),
            attempt=1,
            suspect=False,
            fresh=True,
            takeover=False,
            older=False,
            abandoned_owner="",
            born_ms=0,
        )

    def settle(self, *items: Item, jitter: float = 1.0) -> set[str]:
        """Let the messages go; the jitter is the same for all."""
        departures = Departures(self.container, self.invocation, uniform=lambda *_: jitter)
        return departures.settle(items)

    def copies(self, *items: Item) -> list[Waiting]:
        """Return what was sent to the queue itself."""
        received = {item.message_id for item in items}
        return [one for one in self.queue.waiting.values() if one.message_id not in received]

    def delay_of(self, item: Item) -> float:
        (copy,) = self.copies(item)
        return copy.visible_at - self.clock.wall()


def dead_letter(reason: str = "permanent", *, fence: int = 0) -> Verdict:
    return Verdict(fate="dead_letter", reason=reason, fence=fence)


@pytest.mark.parametrize(
    ("verdict", "returns", "copies", "letters"),
    [
        (delete("done"), False, 0, 0),
        (give_back("store_unavailable"), True, 0, 0),
        (None, True, 0, 0),
        (defer("busy", 3.0), False, 1, 0),
        (dead_letter(), False, 0, 1),
    ],
    ids=["delete", "return", "none", "defer", "dead letter"],
)
def test_each_fate_sends_what_it_owes(
    verdict: Verdict | None, *, returns: bool, copies: int, letters: int
) -> None:
    desk = Desk()
    item = desk.item(verdict)

    returning = desk.settle(item)

    assert returning == ({item.message_id} if returns else set())
    assert (len(desk.copies(item)), len(desk.queue.dead)) == (copies, letters)


@pytest.mark.parametrize("verdict", [defer("busy", 3.0), dead_letter()], ids=["copy", "letter"])
@pytest.mark.parametrize("fault", ["down", "lost", "refused"])
def test_message_comes_back_where_what_it_owes_is_not_acknowledged(
    verdict: Verdict, fault: Any
) -> None:
    desk = Desk(plan=Script(send=[fault] * 2))
    item = desk.item(verdict)

    returning = desk.settle(item)

    assert returning == {item.message_id}
    told = [one for one in desk.told if isinstance(one, events.RecordSettled)]
    assert [one.outcome for one in told] == ["return"]
    assert not [one for one in desk.told if isinstance(one, events.Deferred | events.DeadLettered)]


def test_letter_that_failed_once_is_sent_again() -> None:
    desk = Desk(plan=Script(send=["down"]))
    item = desk.item(dead_letter())

    returning = desk.settle(item)

    assert returning == set()
    assert len(desk.queue.dead) == 1


def test_nothing_is_sent_at_the_very_end_of_an_invocation() -> None:
    desk = Desk()
    item = desk.item(dead_letter())
    desk.clock.sleep(29.8)

    returning = desk.settle(item)

    assert returning == {item.message_id}
    assert desk.queue.dead == []


@pytest.mark.parametrize(
    ("needed", "deferrals", "jitter", "delay"),
    [
        (0.0, 0, 1.0, 1.0),
        (10.0, 0, 1.0, 10.0),
        (10.0, 0, 1.25, 13.0),
        (10.0, 4, 1.0, 20.0),
        (10.0, 1_000, 1.0, 80.0),
        (5_000.0, 0, 1.0, 900.0),
    ],
)
def test_copy_stays_away_as_long_as_is_needed_at_least_a_second_jittered_and_growing(
    needed: float, deferrals: int, jitter: float, delay: float
) -> None:
    desk = Desk()
    item = desk.item(defer("busy", needed), deferrals=deferrals)

    desk.settle(item, jitter=jitter)

    assert desk.delay_of(item) == pytest.approx(delay)


def test_copy_counts_its_deferral_and_keeps_the_first_send() -> None:
    desk = Desk()
    first = desk.clock.wall() - 500.0
    item = desk.item(defer("busy", 1.0), deferrals=3, first_sent=first, rearm=77)

    desk.settle(item)

    (copy,) = desk.copies(item)
    body = json.loads(copy.body)
    assert (body["deferrals"], body["first_sent"], body["rearm"]) == (4, first, 77)


def test_message_too_large_for_a_copy_returns() -> None:
    desk = Desk()
    item = desk.item(defer("busy", 1.0), payload={"text": "x" * 1_048_500})

    returning = desk.settle(item)

    assert returning == {item.message_id}


@pytest.mark.parametrize(
    ("age", "fields", "buried"),
    [
        (345_599.0, {}, False),
        (345_601.0, {}, True),
        (0.0, {"enqueued_at": 1.0}, False),
        (0.0, {"first_sent": 1.0, "deferrals": 3, "enqueued_at": 1.0}, True),
        (10.0, {"first_sent": 1.0}, False),
    ],
    ids=["young", "old", "late clock of a sender", "old copy", "redriven"],
)
def test_job_waits_no_longer_than_its_age_allows(
    age: float, fields: dict[str, Any], *, buried: bool
) -> None:
    desk = Desk()
    item = desk.item(defer("busy", 1.0), age_seconds=age, **fields)

    desk.settle(item)

    reasons = [one.attributes["sekali.reason"]["stringValue"] for one in desk.queue.dead]
    assert reasons == (["waited_too_long"] if buried else [])


@pytest.mark.parametrize(("ours", "theirs"), [(5, 9), (9, 5), (0, 9), (9, 0)])
def test_dead_letter_names_the_greater_fence(ours: int, theirs: int) -> None:
    desk = Desk()
    item = desk.item(dead_letter(fence=theirs), fence=ours)

    desk.settle(item)

    (letter,) = desk.queue.dead
    assert letter.attributes["sekali.fence"]["stringValue"] == "9"


def test_dead_letter_of_a_bad_record_is_the_record_itself() -> None:
    desk = Desk()
    waiting = desk.queue.send("{", attributes={"own": {"dataType": "String", "stringValue": "x"}})
    (raw,) = desk.queue.receive([waiting])
    item = Item(raw=raw, message_id=waiting.message_id, verdict=dead_letter("not_json"))

    returning = desk.settle(item)

    assert returning == set()
    (letter,) = desk.queue.dead
    assert letter.body == "{"
    assert letter.attributes["own"]["stringValue"] == "x"


def test_deferred_fifo_message_is_hidden_together_with_the_rest_of_its_group() -> None:
    desk = Desk(**FIFO)
    head = desk.item(defer("busy", 10.0), group="g")
    behind = desk.item(give_back(BEHIND), group="g")
    other = desk.item(give_back(BEHIND), group="h")

    returning = desk.settle(head, behind, other)

    assert returning == {item.message_id for item in (head, behind, other)}
    hidden = [one.visible_at - desk.clock.wall() for one in desk.queue.waiting.values()]
    assert hidden == [10.0, 10.0, 60.0]


def test_dead_letter_of_a_fifo_queue_keeps_its_group() -> None:
    desk = Desk(**FIFO)
    item = desk.item(mismatch_verdict(), group="g")

    returning = desk.settle(item)

    assert returning == set()
    assert len(desk.queue.dead) == 1


def test_every_record_is_told_once_with_what_became_of_it() -> None:
    desk = Desk()
    verdicts = [delete("done"), defer("retry", 1.0), dead_letter(), give_back("unsettled")]
    items = [desk.item(verdict) for verdict in verdicts]

    desk.settle(*items)

    told = [one for one in desk.told if isinstance(one, events.RecordSettled)]
    assert [(one.outcome, one.reason) for one in told] == [
        ("delete", "done"),
        ("defer", "retry"),
        ("dead_letter", "permanent"),
        ("return", "unsettled"),
    ]
    assert [
        type(one).__name__ for one in desk.told if not isinstance(one, events.RecordSettled)
    ] == [
        "Deferred",
        "Retried",
        "DeadLettered",
    ]
