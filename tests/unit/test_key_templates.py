"""The quick way through a key's template says what the formatter says."""

from __future__ import annotations

from typing import Any

import pytest

from sekali.errors import MessageInvalid
from sekali.jobs import JobSpec

PAYLOAD = {"month": "2013-01", "carrier": "U/A~%", "n": 7, "deep": {"x": [1, 2]}, "none": None}


def spec(key: str) -> JobSpec:
    return JobSpec(name="job", function=lambda _: None, key=key, ttl_seconds=0.0, permanent=())


@pytest.mark.parametrize(
    ("template", "key"),
    [
        ("{payload[month]}", "2013-01"),
        ("{payload[month]}/{payload[carrier]}", "2013-01/U%2FA%7E%25"),
        ("of {payload[n]}, {payload[none]}", "of ~7, ~null"),
        ("{{{payload[deep]}}}", '{~{"x":[1,2]}}'),
        ("always", "always"),
        # What takes the formatter's own way.
        ("{payload[n]:04}", "0007"),
        ("{payload[month]!r}", "'2013-01'"),
        ("{payload[deep][x]}", "~[1,2]"),
    ],
)
def test_template_is_filled(template: str, key: str) -> None:
    assert spec(template).key_of("id", PAYLOAD) == key


@pytest.mark.parametrize("payload", [{}, {"month": b"bytes"}, {"Month": "2013"}])
def test_payload_without_the_field_is_refused(payload: dict[str, Any]) -> None:
    with pytest.raises(MessageInvalid):
        spec("{payload[month]}").key_of("id", payload)


def test_field_that_reads_like_a_number_is_none_of_an_object() -> None:
    with pytest.raises(MessageInvalid):
        spec("{payload[0]}").key_of("id", {"0": "text"})
