"""Carry values as JSON, exactly, and tell ours from anything else that is stored.

What JSON cannot carry exactly is refused, not changed: NaN and the infinities, keys that are not
text, dates, decimals, bytes, sets, objects, and what is nested more than 100 deep. `None`, `False`,
`0`, `""` and empty containers are values like any other. Two things do come back as their plain
form, in every tier alike: a tuple as a list, and a subclass (an `IntEnum`, an `OrderedDict`) as the
type that it extends. Text is not normalised, and a lone surrogate survives.

A value in the shared cache is an envelope around those bytes::

    0                  16     18      22             62      66       70
    | fence, 16 digits | "02" | crc32 | five doubles | a size | a size | key | more | body (JSON) |

The fence stands first and in plain digits because a script compares it without decoding. The
checksum covers everything else. The doubles are created, hard TTL, soft TTL, life past the hard TTL
and time of the load, -1 where there is none; the sizes are those of the key and of `more`, the JSON
of what few values have: tags and packing. All integers are little-endian. A reader takes the head
apart in one step, which costs a hit less than JSON would.

The key is the one that the value was stored under, and the version changes with the layout: a value
that was cut, swapped, written by something else or by another release is a miss with a reason, and
never an exception to whoever asked for it. Nothing is unpickled, ever.
"""

from __future__ import annotations

import hashlib
import json
import json.encoder
import math
import re
import struct
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NoReturn
from zlib import crc32

from sekali.errors import MessageInvalid, ResultUnencodable, ValueUnreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MOST_LEVELS = 100

# Lua and JSON numbers are doubles: above this they stop being exact, and no fence gets there.
GREATEST_FENCE = 2**53 - 1

# Python refuses to write or read an integer of more than 4,300 digits.
_MOST_BITS = 14_280

_VERSION = b"02"
_FRONT = re.compile(rb"[0-9]{16}(?P<version>[0-9]{2})")
FENCE_DIGITS = 16
_VERSION_ENDS = 18
_CHECKSUM = struct.Struct("<L")
_CHECKSUM_ENDS = _VERSION_ENDS + _CHECKSUM.size
_ABOUT = struct.Struct("<dddddLL")
_HEAD = struct.Struct("<16s2sLdddddLL")
_HEAD_BYTES = _HEAD.size
_NONE = -1.0
_MOST_SECONDS = 2.0**53
"""Above that no double tells a second from the next; NaN is not below it either."""


def _writer(*, sort_keys: bool) -> Callable[[object, dict[int, object] | None], str]:
    """Return what writes compact JSON, made once: `JSONEncoder.encode` makes it for each value.

    It takes the value and where to note what it is in; None is for values that are known to end,
    and takes half of the time for a small one (tests/benchmarks, "library: choices"). A circle
    would be written again and again there until the stack is used up, with whatever stands in it.
    """
    encoder = json.JSONEncoder(
        ensure_ascii=False, allow_nan=False, separators=(",", ":"), sort_keys=sort_keys
    )
    # Any: typeshed leaves this function out; the standard library's own encoder is made of it.
    make: Any = getattr(json.encoder, "c_make_encoder", None)
    if make is None:  # not CPython
        return lambda value, _: encoder.encode(value)
    looking = partial(
        make,
        default=encoder.default,
        encoder=json.encoder.encode_basestring,
        indent=None,
        key_separator=":",
        item_separator=",",
        sort_keys=sort_keys,
        skipkeys=False,
        allow_nan=False,
    )
    plain, join = looking(markers=None), "".join
    return lambda value, seen: join((plain if seen is None else looking(markers=seen))(value, 0))


_open = _HEAD.unpack_from
NO_EPOCHS: Mapping[str, str] = MappingProxyType({})
"""What a value without tags carries."""
_compact = _writer(sort_keys=False)
_canonical = _writer(sort_keys=True)
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,39}")
_SHOWN_KEY = 40
_LEAVES = frozenset({str, int, float, bool, type(None)})
_TEXT = frozenset({str})


class _Fault(NamedTuple):
    """Name the first place that JSON cannot carry."""

    path: str
    type_name: str
    rule: str


class Opened(NamedTuple):
    """Hold a checked value: its body is still encoded."""

    fence: int
    body: bytes
    created: float
    ttl_seconds: float
    epochs: Mapping[str, str]
    soft_seconds: float | None = None
    stale_seconds: float = 0.0
    load_seconds: float = 0.0
    packing: str = ""


def encode(value: object, *, job: str = "") -> bytes:
    """Return `value` as compact JSON in UTF-8.

    Raises:
        ResultUnencodable: JSON cannot carry it exactly; the error names the type and the path.

    """
    text = _written(value, _compact)
    if text is None:
        fault = _first_fault(value)
        raise ResultUnencodable(job, fault.type_name, fault.path, fault.rule)
    return text.encode("utf-8", "surrogatepass")


def decode(body: bytes) -> Any:  # Any: whatever JSON holds
    """Return the value that `encode` was given, as fresh objects that nobody else holds.

    Raises:
        ValueUnreadable: these are not the bytes of a value (`garbage`).

    """
    try:
        text = body.decode("utf-8", "surrogatepass")
        # What `_DECODER.decode` does, less its search for space around the value: we write none.
        value, end = _SCAN(text, 0)
        return value if end == len(text) else _DECODER.decode(text)
    except (StopIteration, ValueError, RecursionError):
        raise ValueUnreadable("garbage") from None


def payload_hash(payload: object) -> str:
    """Return 32 hexadecimal digits that stand for the content of a payload.

    The order of keys does not matter; everything else does: `1`, `1.0` and `True` are three
    payloads, and so are two spellings of one character. A tuple counts as a list.

    Raises:
        MessageInvalid: the payload is not what JSON can carry.

    """
    text = _written(payload, _canonical)
    if text is None:
        fault = _first_fault(payload)
        field = "payload" + fault.path.removeprefix("$")
        raise MessageInvalid("wrong_type", field, fault.rule, fault.type_name)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def header(
    fence: int,
    *,
    key: str,
    created: float,
    ttl_seconds: float,
    epochs: Mapping[str, str],
    body: bytes,
    soft_seconds: float | None = None,
    stale_seconds: float = 0.0,
    load_seconds: float = 0.0,
    packing: str = "",
) -> bytes:
    """Return what stands before `body` in a stored value.

    The two are joined by the script that stores them, so that the body crosses the wire once.

    Args:
        fence: of the claim that stores it.
        key: the scoped key.
        created: wall-clock seconds.
        ttl_seconds: hard TTL, the part of its physical life in which it is no stale value.
        epochs: the mark of each tag as it was before the load.
        body: what follows, as it is stored.
        soft_seconds: age from which it is refreshed, None for never.
        stale_seconds: physical life past the hard TTL, for callers whose loader fails.
        load_seconds: how long it took to compute.
        packing: how the body is written (see `packing`); empty is plain JSON.
    """
    if not 0 <= fence <= GREATEST_FENCE:
        raise ValueError(f"fence must be between 0 and {GREATEST_FENCE}, got {fence!r}")
    rest: dict[str, object] = {}
    if epochs:
        rest["e"] = dict(epochs)
    if packing:
        rest["p"] = packing
    name = key.encode("utf-8", "surrogatepass")
    more = _compact(rest, None).encode("utf-8", "surrogatepass") if rest else b""
    soft = _NONE if soft_seconds is None else soft_seconds
    numbers = (created, ttl_seconds, soft, stale_seconds, load_seconds)
    about = _ABOUT.pack(*numbers, len(name), len(more)) + name + more
    front = b"%016d%s" % (fence, _VERSION)
    return front + _CHECKSUM.pack(crc32(body, crc32(about, crc32(front)))) + about


def read(value: bytes, *, key: str) -> Opened:
    """Check a stored value and take it apart.

    Raises:
        ValueUnreadable: `garbage` is not ours at all, `version` is another layout, `checksum` was
            damaged or cut, `key` belongs to another key.

    """
    return Opened(*unfold(value, key=key))


def unfold(
    value: bytes, *, key: str
) -> tuple[int, bytes, float, float, Mapping[str, str], float | None, float, float, str]:
    """Check a stored value; return the fields of `Opened`, in their order.

    Raises:
        ValueUnreadable: as `read` says.
    """
    try:
        digits, version, checksum, created, ttl, soft, stale, load, name_bytes, more_bytes = _open(
            value
        )
        fence = int(digits)
    except (ValueError, struct.error):
        raise ValueUnreadable(_fault_of(value)) from None
    if version != _VERSION or checksum != crc32(
        value[_CHECKSUM_ENDS:], crc32(value[:_VERSION_ENDS])
    ):
        raise ValueUnreadable(_fault_of(value))
    if not (
        0 <= fence <= GREATEST_FENCE
        and -_MOST_SECONDS <= created <= _MOST_SECONDS
        and 0.0 <= ttl <= _MOST_SECONDS
        and _NONE <= soft <= _MOST_SECONDS
        and 0.0 <= stale <= _MOST_SECONDS
        and 0.0 <= load <= _MOST_SECONDS
    ):
        raise ValueUnreadable("garbage")
    start = _HEAD_BYTES + name_bytes
    if value[_HEAD_BYTES:start] != key.encode("utf-8", "surrogatepass"):
        raise ValueUnreadable("key")
    epochs, packing = NO_EPOCHS, ""
    if more_bytes:
        start += more_bytes
        epochs, packing = _more_of(value[start - more_bytes : start])
    return (
        fence,
        value[start:],
        created,
        ttl,
        epochs,
        None if soft == _NONE else soft,
        stale,
        load,
        packing,
    )


def _more_of(text: bytes) -> tuple[Mapping[str, str], str]:
    """Return the mark of each tag and the packing; whoever wrote this may not have been us."""
    more = decode(text)
    if type(more) is dict:
        epochs, packing = more.get("e", {}), more.get("p", "")
        if (
            type(epochs) is dict
            and type(packing) is str
            and _TEXT.issuperset(map(type, epochs.values()))
        ):
            return epochs, packing
    raise ValueUnreadable("garbage")


def _fault_of(value: bytes) -> Literal["garbage", "version", "checksum"]:
    """Return why these bytes are no value of ours."""
    front = _FRONT.match(value)
    if front is None:
        return "garbage"
    return "checksum" if front["version"] == _VERSION else "version"


def fence_of(value: bytes) -> int:
    """Return the fence of a stored value, without checking the rest.

    It is what a caller who cannot use the value asks the next claim to refuse. For a value that is
    not ours it is the greatest fence there is, which refuses whatever a script reads there.
    """
    digits = value[:FENCE_DIGITS]
    return int(digits) if len(digits) == FENCE_DIGITS and digits.isdigit() else GREATEST_FENCE


def _written(value: object, write: Callable[[object, dict[int, object] | None], str]) -> str | None:
    """Return the JSON text, or None where the value is not JSON."""
    flat = _is_flat(value)
    try:
        text = write(value, None if flat else {})
    except (TypeError, ValueError, RecursionError):
        return None
    # The encoder turns keys that are numbers or None into text, silently; this looks for them.
    # It comes second because the encoder has seen by then that the value is finite.
    return text if flat or _is_plain(value) else None


def _is_flat(value: object) -> bool:
    """Tell whether it is a leaf or an object of leaves, as most values are."""
    if type(value) is not dict:
        return type(value) in _LEAVES
    return _TEXT.issuperset(map(type, value)) and _LEAVES.issuperset(map(type, value.values()))


def _is_plain(value: object) -> bool:
    """Tell whether all keys are text and the depth is bounded; walks level by level."""
    level = [value]
    for _ in range(MOST_LEVELS + 1):
        deeper: list[object] = []
        for node in level:
            if isinstance(node, dict):
                for name in node:
                    if not isinstance(name, str):
                        return False
                deeper += [inner for inner in node.values() if type(inner) not in _LEAVES]
            elif isinstance(node, (list, tuple)):
                deeper += [inner for inner in node if type(inner) not in _LEAVES]
        if not deeper:
            return True
        level = deeper
    return False


def _first_fault(value: object) -> _Fault:
    """Find why `value` is not JSON. Only an error pays for the paths."""
    return _fault(value, "$", 0) or _Fault("$", type(value).__name__, "is not JSON")


def _fault(node: object, path: str, depth: int) -> _Fault | None:
    if depth > MOST_LEVELS:
        return _Fault("$", type(node).__name__, f"is nested more than {MOST_LEVELS} deep")
    if isinstance(node, dict):
        for name, inner in node.items():
            if not isinstance(name, str):
                return _Fault(path, type(name).__name__, "cannot be a key: keys are text")
            found = _fault(inner, path + _step(name), depth + 1)
            if found:
                return found
        return None
    if isinstance(node, (list, tuple)):
        inside = (_fault(inner, f"{path}[{at}]", depth + 1) for at, inner in enumerate(node))
        return next((found for found in inside if found), None)
    return _leaf_fault(node, path)


def _leaf_fault(node: object, path: str) -> _Fault | None:
    if node is None or isinstance(node, str):
        return None
    if isinstance(node, float):
        return None if math.isfinite(node) else _Fault(path, "float", "is not a finite number")
    if isinstance(node, int):
        return (
            None if node.bit_length() < _MOST_BITS else _Fault(path, "int", "has too many digits")
        )
    return _Fault(path, type(node).__name__, "is not JSON")


def _step(name: str) -> str:
    return f".{name}" if _PLAIN_KEY.fullmatch(name) else f"[{name[:_SHOWN_KEY]!r}]"


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)
_SCAN: Callable[[str, int], tuple[Any, int]] = vars(_DECODER)["scan_once"]  # Any: as in decode
