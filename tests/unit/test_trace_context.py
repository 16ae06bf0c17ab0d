"""One trace id, in X-Ray's form and in W3C's, and nothing else for one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sekali.telemetry.trace_context import TraceContext, parse, trace_id_of, xray_header_of

XRAY = "Root=1-67891233-abcdef012345678912345678;Parent=53995c3f42cd8ad8;Sampled=1"
W3C = "00-67891233abcdef012345678912345678-53995c3f42cd8ad8-01"
HEX = "0123456789abcdef"


def test_both_forms_name_one_place() -> None:
    assert parse(XRAY) == parse(W3C)
    assert trace_id_of(XRAY) == "1-67891233-abcdef012345678912345678"
    assert trace_id_of(W3C) == "67891233abcdef012345678912345678"


@given(
    st.text(HEX, min_size=32, max_size=32).filter(lambda one: set(one) != {"0"}),
    st.text(HEX, min_size=16, max_size=16).filter(lambda one: set(one) != {"0"}),
    st.booleans(),
)
def test_each_form_reads_back_what_was_written(trace_id: str, span_id: str, sampled: bool) -> None:  # noqa: FBT001 - hypothesis passes by position
    context = TraceContext(trace_id, span_id, sampled)

    assert parse(context.xray_header) == context
    assert parse(context.traceparent) == context


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "Root=1-current",
        "Self=1-67891233-abcdef012345678912345678",
        "00-00000000000000000000000000000000-53995c3f42cd8ad8-01",
        "00-67891233abcdef012345678912345678-0000000000000000-01",
        "ff-67891233abcdef012345678912345678-53995c3f42cd8ad8-01",
        "00-67891233abcdef012345678912345678-53995c3f42cd8ad8-01-more",
        "00-67891233ABCDEF012345678912345678-53995c3f42cd8ad8-01",
    ],
)
def test_what_is_no_header_names_nothing(text: str | None) -> None:
    assert parse(text) is None
    assert trace_id_of(text) is None


@given(st.text())
def test_any_text_is_read_without_an_error(text: str) -> None:
    parse(text)
    parse(f"Root={text};Parent={text};Sampled={text}")


def test_later_version_of_w3c_is_read_by_what_is_known_of_it() -> None:
    assert parse(f"cc{W3C[2:]}-what-the-future-brings") == parse(W3C)


def test_header_without_a_parent_has_no_form_of_w3c() -> None:
    context = parse("Root=1-67891233-abcdef012345678912345678")

    assert context is not None
    assert context.traceparent is None
    assert context.sampled is None


def test_queue_is_given_the_form_of_xray_alone() -> None:
    whole = f"{XRAY};Lineage=a:b"

    assert xray_header_of(W3C) == XRAY
    assert xray_header_of(whole) == whole
    assert xray_header_of("anything") is None
