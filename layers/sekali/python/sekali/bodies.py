"""Read and write the JSON text of a message body.

Stricter than JSON in what is read, because a body must survive being written again: no NaN, no
number that overflows, nothing nested deeper than `MAX_DEPTH`. Stricter than JSON in what is
written, because SQS takes XML characters only.
"""

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from sekali.errors import MessageInvalid

# SQS takes XML characters only; JSON text may still name the others by an escape. Those are listed
# here: to list the characters of XML and negate that takes ten times as long to compile, or more
# (tests/benchmarks, "library: choices").
NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
# Deeper than any real payload, and far from where walking it would exhaust the stack.
MAX_DEPTH = 100
_NOTHING: Mapping[str, object] = {}


def parse(text: object, *, field: str = "body") -> Mapping[str, object]:
    """Return the object that `text` holds.

    Args:
        text: the body as the queue delivered it.
        field: what a fault calls it; the text inside a wrapping has another name than the body.

    Raises:
        MessageInvalid: it is not the text of a JSON object.
    """
    if not isinstance(text, str):
        raise MessageInvalid("wrong_type", field, "must be text", type(text).__name__)
    try:
        # What `_DECODER.decode` does, less its search for space around the object: few have any.
        body, end = _SCAN(text, 0)
        if end != len(text):
            body = _DECODER.decode(text)
    except StopIteration:
        body = _parsed(text, field)
    except (ValueError, RecursionError) as error:
        raise _not_json(text, field) from error
    if type(body) is not dict:
        raise MessageInvalid("not_object", field, "must be a JSON object", type(body).__name__)
    if text.count("{") + text.count("[") > MAX_DEPTH:
        _check_depth(body, field)
    return body


def _parsed(text: str, field: str) -> Any:  # Any: whatever JSON holds
    """Parse what does not begin with a value: space does no harm."""
    if not text or text.isspace():
        raise MessageInvalid("empty", field, "must be a JSON object", text)
    try:
        return _DECODER.decode(text)
    except (ValueError, RecursionError) as error:
        raise _not_json(text, field) from error


def _not_json(text: str, field: str) -> MessageInvalid:
    return MessageInvalid("not_json", field, "must be a JSON object", f"{len(text)} characters")


def to_json(value: object) -> str:
    """Write compact JSON that the queue accepts: no NaN, no character that XML refuses."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return NOT_XML.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def as_mapping(value: object) -> Mapping[str, object]:
    """Return an empty mapping for whatever is none: a record may lack its attributes."""
    # The quick question first: the other one asks Python's table of abstract classes.
    return value if type(value) is dict or isinstance(value, Mapping) else _NOTHING


def _check_depth(body: dict[str, object], field: str) -> None:
    level: list[dict[str, object] | list[object]] = [body]
    depth = 0
    while level := [
        child
        for parent in level
        for child in (parent.values() if isinstance(parent, dict) else parent)
        if isinstance(child, dict | list)
    ]:
        depth += 1
        if depth >= MAX_DEPTH:
            rule = f"must be nested at most {MAX_DEPTH} deep"
            raise MessageInvalid("wrong_type", field, rule, f"more than {MAX_DEPTH} levels")


def _refuse_number(text: str) -> float:
    raise ValueError(text)


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _refuse_number(text)


_DECODER = json.JSONDecoder(parse_constant=_refuse_number, parse_float=_finite)
_SCAN: Callable[[str, int], tuple[Any, int]] = vars(_DECODER)["scan_once"]  # Any: as above
