"""The invalidation log and the epochs of tags, one test for each line of their scripts.

Each also runs against every mutant of the scripts; see test_claim_rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sekali.invalidation import Cursor, Entry, Log, new_mark

if TYPE_CHECKING:
    from sekali.invalidation import Tail
    from tests.properties.protocol.world import World


def tail(world: World, cursor: Cursor | None) -> Tail:
    log = Log(world.keyspace)
    return log.read_tail(world.send(log.tail(cursor)), cursor)


def entries(tail: Tail) -> list[Entry]:
    columns = zip(tail.kinds, tail.names, tail.marks, strict=True)
    return [Entry(*(part.decode() for part in row)) for row in columns]


def append(world: World, *entries: Entry) -> None:
    world.send(Log(world.keyspace).append(entries))


def entry(name: str = "job/k1") -> Entry:
    return Entry("k", name, new_mark())


def test_a_first_reader_of_an_empty_log_starts_where_it_ends(world: World) -> None:
    first = tail(world, None)

    second = tail(world, first.cursor)

    assert first.gap  # nothing is known of what was before
    assert (entries(second), second.cursor, second.gap) == ([], first.cursor, False)


def test_a_second_reader_of_an_empty_log_starts_at_the_same_entry(world: World) -> None:
    first = tail(world, None)

    assert tail(world, None) == first


def test_a_first_reader_starts_at_the_newest_entry(world: World) -> None:
    append(world, entry(), entry())

    first = tail(world, None)

    assert entries(tail(world, first.cursor)) == []


def test_a_reader_gets_what_it_missed_oldest_first(world: World) -> None:
    cursor = tail(world, None).cursor
    missed = [Entry("k", "job/k1", "m1"), Entry("t", "tag", "m2"), Entry("r", "job/k2", "m3")]
    append(world, *missed[:2])
    append(world, missed[2])

    found = tail(world, cursor)

    assert (entries(found), found.gap) == (missed, False)
    assert found.changed(set()) == ({"job/k1", "job/k2"}, [("tag", "m2")])
    own = found.changed({b"m2", b"m3"})
    assert own == ({"job/k1"}, [("tag", "m2")])  # the mark may be newer than another one before it
    assert entries(tail(world, found.cursor)) == []


def test_a_log_that_was_lost_is_a_gap(world: World) -> None:
    cursor = tail(world, None).cursor
    world.client.flushall()

    found = tail(world, cursor)

    assert (found.cursor, found.gap) == (None, True)


def test_a_log_that_grew_again_after_a_loss_is_a_gap(world: World) -> None:
    """The same id, another mark: a plain number could not show this."""
    first = tail(world, None).cursor
    assert first is not None
    world.client.flushall()
    world.client.xadd(world.keyspace.log, {"k": "k", "name": "n", "mark": "other"}, id=first.id)
    append(world, entry())

    found = tail(world, first)

    assert (entries(found), found.gap) == ([], True)
    assert not tail(world, found.cursor).gap


def test_a_log_that_was_trimmed_past_the_cursor_is_a_gap(world: World) -> None:
    cursor = tail(world, None).cursor
    append(world, entry(), entry())
    world.client.xtrim(world.keyspace.log, maxlen=1, approximate=False)

    found = tail(world, cursor)

    assert (entries(found), found.gap) == ([], True)


def test_ten_thousand_missed_entries_are_read_and_one_more_is_a_gap(world: World) -> None:
    cursor = tail(world, None).cursor
    for _ in range(10):
        append(world, *[entry()] * 1_000)

    found = tail(world, cursor)
    append(world, entry())
    beyond = tail(world, cursor)

    assert (len(found.names), found.gap) == (10_000, False)
    assert (len(beyond.names), beyond.gap) == (0, True)


def test_the_log_is_bounded_in_length(world: World) -> None:
    for _ in range(13):
        append(world, *[entry()] * 1_000)

    assert 11_000 <= world.client.xlen(world.keyspace.log) < 11_200


def test_the_log_ends_a_week_after_its_last_entry(world: World) -> None:
    week_ms = 7 * 86_400_000
    tail(world, None)
    opened = world.client.pttl(world.keyspace.log)
    world.client.pexpire(world.keyspace.log, 5_000)

    append(world, entry())

    assert week_ms - 5_000 < opened <= week_ms
    assert week_ms - 5_000 < world.client.pttl(world.keyspace.log) <= week_ms


def test_the_first_reader_of_a_tag_sets_its_mark_and_the_second_gets_it(world: World) -> None:
    log = Log(world.keyspace)

    first = world.send(log.epoch("tag", "one"))
    second = world.send(log.epoch("tag", "two"))

    assert (first, second) == (b"one", b"one")


def test_every_later_reader_of_a_tag_gets_the_first_ones_mark(world: World) -> None:
    """Reading sets nothing where there is a mark: the answer alone would not show that."""
    log = Log(world.keyspace)
    world.send(log.epoch("tag", "one"))
    world.send(log.epoch("tag", "two"))

    assert world.send(log.epoch("tag", "three")) == b"one"


def test_an_invalidated_tag_has_another_mark(world: World) -> None:
    log = Log(world.keyspace)
    world.send(log.epoch("tag", "one"))

    world.send(log.epoch_set("tag", "two"))

    assert world.send(log.epoch("tag", "three")) == b"two"


def test_a_lost_epoch_gets_a_new_mark(world: World) -> None:
    log = Log(world.keyspace)
    world.send(log.epoch("tag", "one"))
    world.client.flushall()

    assert world.send(log.epoch("tag", "two")) == b"two"


def test_a_mark_outlives_every_value_from_its_last_read(world: World) -> None:
    log = Log(world.keyspace)
    key, longest_ms = world.keyspace.epoch("tag"), 14 * 86_400_000 + 3_600_000
    world.send(log.epoch("tag", "one"))
    made = world.client.pttl(key)
    world.client.pexpire(key, 5_000)
    world.send(log.epoch("tag", "two"))
    read = world.client.pttl(key)
    world.send(log.epoch_set("tag", "three"))

    for left in (made, read, world.client.pttl(key)):
        assert longest_ms - 60_000 < left <= longest_ms


def test_tags_do_not_meet(world: World) -> None:
    log = Log(world.keyspace)
    world.send(log.epoch("tag", "one"))

    assert world.send(log.epoch("{tag}", "two")) == b"two"


def test_an_append_wakes_whoever_listens(world: World) -> None:
    with world.client.pubsub() as ear:
        ear.subscribe(world.keyspace.log)
        subscribed = ear.get_message(timeout=30.0)

        append(world, entry())
        # Its answer comes after whatever was published before.
        ear.ping()
        heard = ear.get_message(timeout=30.0)

    assert subscribed is not None
    assert heard is not None
    assert heard["type"] == "message"
