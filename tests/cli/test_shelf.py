"""Moving and deleting dead letters loses nothing, whenever the process is killed."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from moto import mock_aws

from sekali.cli.letters import BY_QUEUE, Filter, grouped
from sekali.cli.shelf import Shelf
from tests.cli.shelves import REASONS, Desk, Killed, Moment, Mortal, desk

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sekali.cli.letters import Letter

LETTERS = 12


@pytest.fixture
def aws() -> Iterator[None]:
    with mock_aws():
        yield


@pytest.fixture
def one(aws: None) -> Desk:
    del aws
    made = desk()
    made.bury_kinds(LETTERS)
    return made


def redrive(client: Any, one: Desk, *, chosen: Filter | None = None) -> list[Letter]:
    """Do what the command does, with a client of its own."""
    chosen = chosen or Filter()
    shelf, moved = Shelf(client, one.shelf, sleep=lambda _: None), []
    try:
        for letters in shelf.look(most=1_000):
            meant = [letter for letter in letters if chosen.matches(letter)]
            moved += shelf.move(meant, to=one.queue, rate=None)[0]
    finally:
        shelf.put_back()
    return moved


def deaths(calls: Sequence[str]) -> Iterator[tuple[int, Moment]]:
    for at in range(len(calls)):
        yield at, "before"
        yield at, "after"


def lost_at(at: int, moment: Moment) -> Counter[str]:
    """Kill a redrive at one moment, let it be repeated, and return what is nowhere any more."""
    with mock_aws():
        one = desk()
        one.bury_kinds(LETTERS)
        before = one.dead()
        with pytest.raises(Killed):
            redrive(Mortal(one.sqs, at=at, moment=moment), one)
        lost = before - (one.dead() | one.queued())
        one.release()
        redrive(one.sqs, one)
        assert one.dead() == Counter()
        doubled = one.queued() - before
        assert sum(doubled.values()) <= 10  # What one batch had sent and not deleted.
        return lost + (before - one.queued())


def calls_of_a_whole_redrive() -> list[str]:
    with mock_aws():
        one = desk()
        one.bury_kinds(LETTERS)
        client = Mortal(one.sqs)
        redrive(client, one)
        return client.calls


def test_redrive_that_is_killed_at_any_moment_loses_nothing_and_keeps_the_reasons() -> None:
    calls = calls_of_a_whole_redrive()
    assert {"receive_message", "send_message_batch", "delete_message_batch"} <= set(calls)

    for at, moment in deaths(calls):
        assert lost_at(at, moment) == Counter(), (calls[at], moment)


def test_redrive_that_deletes_first_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant: the same test sees letters vanish where they are deleted before they are sent."""

    def hasty(self: Shelf, letters: Sequence[Letter], *, to: str, rate: None) -> Any:
        del rate
        for letter in letters:
            self.remove([letter])
            self._send([letter], to)
        return list(letters), []

    monkeypatch.setattr(Shelf, "move", hasty)
    calls = calls_of_a_whole_redrive()

    assert any(lost_at(at, moment) for at, moment in deaths(calls))


def test_copy_is_the_letter_with_everything_beside_it(one: Desk) -> None:
    before = one.dead()

    moved = redrive(one.sqs, one)

    assert len(moved) == LETTERS
    assert one.queued() == before
    assert one.dead() == Counter()


def test_only_letters_that_match_are_moved_and_the_others_are_visible_again(one: Desk) -> None:
    moved = redrive(one.sqs, one, chosen=Filter(reasons=("quarantined",)))

    assert {letter.reason for letter in moved} == {"quarantined"}
    rest = [letter for letters in Shelf(one.sqs, one.shelf).look(most=100) for letter in letters]
    assert len(rest) == LETTERS - len(moved)


def test_letter_whose_copy_is_refused_stays(one: Desk) -> None:
    class Refusing(Mortal):
        def send_message_batch(self, **arguments: Any) -> Any:
            first, *rest = arguments["Entries"]
            answer = self._client.send_message_batch(**arguments | {"Entries": rest})
            failed = {"Id": first["Id"], "SenderFault": False, "Code": "InternalError"}
            return answer | {"Failed": [failed]}

    moved = redrive(Refusing(one.sqs), one)

    assert 0 < len(moved) < LETTERS
    assert sum(one.dead().values()) == LETTERS - len(moved)
    assert sum(one.queued().values()) == len(moved)


def test_look_is_complete_only_when_it_has_seen_all(one: Desk) -> None:
    some, whole = Shelf(one.sqs, one.shelf), Shelf(one.sqs, one.shelf)

    few = [letter for letters in some.look(most=4) for letter in letters]
    some.put_back()
    every = [letter for letters in whole.look(most=1_000) for letter in letters]

    assert (len(few), some.complete) == (4, False)
    assert (len(every), whole.complete) == (LETTERS, True)


def test_look_ends_where_the_same_letters_come_again_and_again(one: Desk) -> None:
    """The symptom: held too shortly, letters come back during the look, which never ended."""

    class Forgetful(Mortal):
        def receive_message(self, **arguments: Any) -> Any:
            return self._client.receive_message(**arguments | {"VisibilityTimeout": 0})

    shelf = Shelf(Forgetful(one.sqs), one.shelf)

    found = [letter.message_id for letters in shelf.look(most=1_000) for letter in letters]

    assert len(found) == len(set(found)) >= 10


def test_letters_are_grouped_by_reason_and_job(one: Desk) -> None:
    letters = [letter for letters in Shelf(one.sqs, one.shelf).look(most=100) for letter in letters]

    groups = {group["reason"]: group for group in grouped(letters)}

    assert groups.keys() == {*REASONS, BY_QUEUE}
    assert groups["permanent"]["count"] == 3
    assert groups["permanent"]["error_types"] == {"ValueError": 3}
    assert {group["job"] for group in groups.values()} == {"report"}
    assert sorted(letter.id for letter in letters) == sorted(f"job-{n}" for n in range(LETTERS))


def test_fifo_copy_keeps_its_group_and_is_not_swallowed_as_a_repeat(aws: None) -> None:
    """The symptom: under the original's deduplication id the queue takes the copy and drops it."""
    del aws
    one = desk(fifo=True)
    for number in range(4):
        body = f'{{"sekali":1,"id":"job-{number}","payload":{{}}}}'
        options: Any = {"MessageGroupId": "g", "MessageDeduplicationId": f"first-{number}"}
        one.sqs.send_message(QueueUrl=one.queue, MessageBody=body, **options)
        one.bury(number, group=f"group-{number % 2}")
    while received := one.sqs.receive_message(QueueUrl=one.queue, MaxNumberOfMessages=10).get(
        "Messages"
    ):
        for message in received:
            one.sqs.delete_message(QueueUrl=one.queue, ReceiptHandle=message["ReceiptHandle"])

    moved = redrive(one.sqs, one)

    assert len(moved) == 4
    assert sum(one.queued().values()) == 4
    taken = boto3.client("sqs").receive_message(
        QueueUrl=one.queue, MaxNumberOfMessages=10, AttributeNames=["All"]
    )["Messages"]
    assert {message["Attributes"]["MessageGroupId"] for message in taken} == {"group-0", "group-1"}


def test_repeat_after_a_kill_leaves_no_second_copy_on_fifo(aws: None) -> None:
    del aws
    one = desk(fifo=True)
    for number in range(4):
        one.bury(number, group=f"group-{number}")
    with pytest.raises(Killed):
        redrive(Mortal(one.sqs, at=2, moment="before"), one)
    killed_between = (sum(one.queued().values()), sum(one.dead().values()))
    one.release()

    redrive(one.sqs, one)

    assert killed_between == (4, 4)
    assert (sum(one.queued().values()), sum(one.dead().values())) == (4, 0)


def test_letter_that_dies_again_during_the_redrive_is_left_alone(one: Desk) -> None:
    """The symptom: a job that fails at once went round in circles, and the redrive never ended."""

    class Failing(Mortal):
        def send_message_batch(self, **arguments: Any) -> Any:
            answer = self._client.send_message_batch(**arguments)
            for sent in arguments["Entries"]:
                letter = {name: sent[name] for name in ("MessageBody", "MessageAttributes")}
                self._client.send_message(QueueUrl=one.shelf, **letter)
            return answer

    moved = redrive(Failing(one.sqs), one)

    assert len(moved) == LETTERS
    assert sum(one.queued().values()) == sum(one.dead().values()) == LETTERS
