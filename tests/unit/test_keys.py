"""Names of keys: one slot for each key, and no two texts with one name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis.crc import key_slot

from sekali.errors import KeyInvalid
from sekali.keys import CACHE_NAME, Keyspace

KEYSPACE = Keyspace("sekali", 64)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=600)
NAMES = st.sampled_from([CACHE_NAME, "reports", "reports.v2", "a", "A-b_c"])


def test_names_tell_what_they_are() -> None:
    slot = KEYSPACE.of("reports", "id-1", "2013-01/UA")

    assert [name.partition(b"}:")[2] for name in slot] == [
        b"job:reports/id-1",
        b"lease:reports/2013-01/UA",
        b"value:reports/2013-01/UA",
        b"key:reports/2013-01/UA",
        b"active",
        b"born",
    ]
    assert slot.record.startswith(b"{sekali:")
    assert (KEYSPACE.log, KEYSPACE.epoch("tag")) == (b"sekali:log", b"sekali:epoch:tag")


@given(NAMES, TEXTS, TEXTS)
def test_all_keys_of_a_call_are_in_one_slot(name: str, id_: str, key: str) -> None:
    slot = KEYSPACE.of(name, id_, key)

    assert len({key_slot(part) for part in slot}) == 1


@given(NAMES, TEXTS, NAMES, TEXTS)
def test_two_keys_share_a_name_only_if_they_are_the_same(
    name: str, key: str, other_name: str, other_key: str
) -> None:
    first = KEYSPACE.of(name, "id", key)
    second = KEYSPACE.of(other_name, "id", other_key)

    assert (first.value == second.value) == ((name, key) == (other_name, other_key))


@given(TEXTS)
def test_a_long_text_and_its_shortened_name_do_not_meet(text: str) -> None:
    """Whoever knows how long texts are shortened cannot write a short text with that name."""
    long = text * (600 // len(text) + 1)
    shortened = KEYSPACE.of("a", "id", long).value.partition(b"value:a/")[2]

    again = KEYSPACE.of("a", "id", shortened.decode("utf-8", "replace")).value

    assert again.partition(b"value:a/")[2] != shortened


def test_long_texts_that_differ_at_their_end_have_names_of_their_own() -> None:
    first = KEYSPACE.of("a", "x" * 10_000 + "1", "k").record
    second = KEYSPACE.of("a", "x" * 10_000 + "2", "k").record

    assert first != second
    assert len(first) < 700


def test_keys_spread_over_their_buckets() -> None:
    buckets = {KEYSPACE.of("a", "id", f"key-{number}").active for number in range(2_000)}

    assert len(buckets) == 64


def test_another_namespace_has_other_names() -> None:
    here, there = KEYSPACE.of("a", "i", "k"), Keyspace("other", 64).of("a", "i", "k")

    assert not set(here) & set(there)


@pytest.mark.parametrize("name", ["", "~~", "a/b", "a b", "é", "x" * 65, "a\n", "{a}"])
def test_a_job_name_that_could_be_mistaken_is_refused(name: str) -> None:
    with pytest.raises(KeyInvalid) as raised:
        KEYSPACE.of(name, "id", "key")

    assert (raised.value.what, raised.value.value) == ("job name", name)


@pytest.mark.parametrize(("id_", "key", "what"), [("", "k", "id"), ("i", "", "key")])
def test_an_empty_text_is_refused(id_: str, key: str, what: str) -> None:
    with pytest.raises(KeyInvalid) as raised:
        KEYSPACE.of("a", id_, key)

    assert raised.value.what == what


def test_a_text_that_utf8_cannot_carry_is_refused() -> None:
    with pytest.raises(KeyInvalid):
        KEYSPACE.of("a", "\ud800", "key")


@pytest.mark.parametrize("namespace", ["", "UPPER", "a_b", "x" * 33, "a{b", "a:b"])
def test_a_namespace_that_breaks_its_rule_is_refused(namespace: str) -> None:
    with pytest.raises(KeyInvalid):
        Keyspace(namespace, 64)


@pytest.mark.parametrize("buckets", [0, -1, 16_385])
def test_a_number_of_buckets_out_of_bounds_is_refused(buckets: int) -> None:
    with pytest.raises(KeyInvalid):
        Keyspace("sekali", buckets)
