"""Break a Lua script in every small way: drop each comparison, each write, each part of a write.

The scripts are simple enough for their tokens to tell what is what. Made are, one at a time:

- each operand of a condition (a comparison, or a value that is asked for truth) turned to `true`
and
  to `false`;
- each write and each other statement that is not a return, left out;
- each field of a write, each TTL and `NX` of a SET, left out;
- each argument of `math.max` and `math.min`, each `+ 1` and `- 1`, left out.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_TOKEN: Final = re.compile(
    r"""(?P<skip>--[^\n]*|\s+)
    |(?P<text>'[^']*')
    |(?P<number>\d+)
    |(?P<name>[A-Za-z_]\w*(?:[.:][A-Za-z_]\w*)*)
    |(?P<op>\.\.\.|\.\.|==|~=|<=|>=|[-+*/^%\#<>=(){}\[\],;])""",
    re.VERBOSE,
)
_SHOWN_CHARACTERS: Final = 60
_COMPARISONS: Final = {"==", "~=", "<", ">", "<=", ">="}
_BINARY: Final = _COMPARISONS | {"and", "or", "+", "-", "*", "/", "^", "..", "%"}
_OPENS: Final = {"(": ")", "{": "}", "[": "]", "function": "end"}
_CLOSES: Final = {")", "}", "]", "end"}
_ENDS_OPERAND: Final = {"and", "or", "then", ",", "do", "end", "else", "return", "="}
_STARTS_OPERAND: Final = {"if", "elseif", "and", "or", "not", "=", ",", "(", "{", "return"}
_STATEMENT_HEADS: Final = {"local", "if", "elseif", "else", "for", "return", "end", "function"}


@dataclass(frozen=True, slots=True)
class Token:
    """One token and where it stands."""

    kind: str
    text: str
    start: int
    end: int
    line: int


@dataclass(frozen=True, slots=True)
class Mutant:
    """One script, broken in one place. `name` says how, and stays when lines move."""

    script: str
    name: str
    source: str


def mutants(script: str, source: str) -> list[Mutant]:
    """Return every mutant of one script's source, each with a name of its own."""
    tokens = list(_tokens(source))
    edits = [
        *_conditions(tokens),
        *_statements(tokens),
        *_fields(tokens),
        *_extremes(tokens),
        *_steps(tokens),
    ]
    seen: Counter[str] = Counter()
    made = []
    for start, end, text in edits:
        name = f"{_shown(source[start:end])} → {text.strip() or 'nothing'}"
        seen[name] += 1
        if seen[name] > 1:
            name = f"{name} ({seen[name]})"
        made.append(Mutant(script, name, source[:start] + text + source[end:]))
    return made


Edit = tuple[int, int, str]


def _shown(text: str) -> str:
    flat = re.sub(r"\s+", " ", text).strip(" ,")
    return flat if len(flat) <= _SHOWN_CHARACTERS else f"{flat[:_SHOWN_CHARACTERS]}…"


def _tokens(source: str) -> Iterator[Token]:
    at = 0
    while at < len(source):
        match = _TOKEN.match(source, at)
        if match is None:
            raise ValueError(f"no Lua that is known here: {source[at : at + 20]!r}")
        kind = match.lastgroup or ""
        if kind != "skip":
            yield Token(kind, match.group(), at, match.end(), source.count("\n", 0, at))
        at = match.end()


def _operand(tokens: list[Token], first: int) -> int:
    """Return the index behind the operand that starts at `first`."""
    depth = 0
    for index in range(first, len(tokens)):
        token = tokens[index]
        if depth == 0 and index > first:
            ended = token.text in _ENDS_OPERAND or token.text in _CLOSES
            before = tokens[index - 1]
            fresh_line = token.line > before.line
            carries_on = token.text in _BINARY or before.text in _BINARY
            if ended or (fresh_line and not carries_on):
                return index
        depth += token.text in _OPENS
        depth -= token.text in _CLOSES
        if depth < 0:
            return index
    return len(tokens)


def _conditions(tokens: list[Token]) -> Iterator[Edit]:
    for index, token in enumerate(tokens):
        if index == 0 or tokens[index - 1].text not in _STARTS_OPERAND:
            continue
        if token.text in ("not", "function") or token.text in _CLOSES:
            continue
        stop = _operand(tokens, index)
        operand = tokens[index:stop]
        before = tokens[index - 1].text
        behind = tokens[stop].text if stop < len(tokens) else ""
        compares = any(one.text in _COMPARISONS for one in _outermost(operand))
        asked = before in ("if", "elseif", "not") or behind in ("and", "or", "then")
        asked = asked or before in ("and", "or")
        plain = len(operand) == 1 and operand[0].kind in ("text", "number")
        constant = len(operand) == 1 and operand[0].text in ("true", "false", "nil")
        if (compares or asked) and not plain and not constant and not _is_group(operand):
            for value in ("true", "false"):
                yield operand[0].start, operand[-1].end, value


def _outermost(operand: list[Token]) -> Iterator[Token]:
    depth = 0
    for token in operand:
        depth -= token.text in _CLOSES
        if depth == 0:
            yield token
        depth += token.text in _OPENS


def _is_group(operand: list[Token]) -> bool:
    """Tell whether these are parentheses around a condition, whose operands have their turn."""
    if operand[0].text != "(" or _closing(operand, 0) != len(operand) - 1:
        return False
    return any(token.text in ("and", "or", "not") for token in operand)


def _closing(tokens: list[Token], opening: int) -> int:
    depth = 0
    for index in range(opening, len(tokens)):
        depth += tokens[index].text in _OPENS
        depth -= tokens[index].text in _CLOSES
        if depth == 0:
            return index
    raise ValueError(f"never closed: {tokens[opening].text!r}")


def _starts_line(tokens: list[Token], index: int) -> bool:
    return index == 0 or tokens[index].line > tokens[index - 1].line


def _statements(tokens: list[Token]) -> Iterator[Edit]:
    for index, token in enumerate(tokens):
        if not _starts_line(tokens, index) or token.kind != "name":
            continue
        if token.text in _STATEMENT_HEADS or token.text in _BINARY:
            continue
        if tokens[index - 1].text in _BINARY | {",", "("}:
            continue
        if tokens[index + 1].text == "(":
            stop = _closing(tokens, index + 1)
            yield token.start, tokens[stop].end, ""
            continue
        equals = next(at for at in range(index, len(tokens)) if tokens[at].text == "=")
        stop = _operand(tokens, equals + 1)
        while stop < len(tokens) and tokens[stop].text == ",":
            stop = _operand(tokens, stop + 1)
        yield token.start, tokens[stop - 1].end, ""


def _arguments(tokens: list[Token], opening: int) -> list[tuple[int, int]]:
    """Return where each argument of a call starts and ends, as indexes of tokens."""
    closing = _closing(tokens, opening)
    parts, start, depth = [], opening + 1, 0
    for index in range(opening + 1, closing + 1):
        text = tokens[index].text
        if depth == 0 and (text == "," or index == closing):
            parts.append((start, index))
            start = index + 1
        depth += text in _OPENS
        depth -= text in _CLOSES
    return parts


def _without(tokens: list[Token], first: int, behind: int) -> Edit:
    """Leave out the arguments of the tokens from `first`, with the comma before them."""
    return tokens[first - 1].start, tokens[behind - 1].end, ""


def _fields(tokens: list[Token]) -> Iterator[Edit]:
    for index, token in enumerate(tokens):
        if token.text not in ("redis.call", "settle") or tokens[index + 1].text != "(":
            continue
        if tokens[index - 1].text == "function":
            continue
        parts = _arguments(tokens, index + 1)
        words = [tokens[start].text for start, _ in parts]
        if token.text == "settle":
            yield from _pairs(tokens, parts)
        elif words[0] == "'HSET'":
            yield from _pairs(tokens, parts[2:])
        for place, word in enumerate(words):
            if word == "'PX'":
                yield _without(tokens, parts[place][0], parts[place + 1][1])
            if word == "'NX'":
                yield _without(tokens, *parts[place])


def _pairs(tokens: list[Token], parts: list[tuple[int, int]]) -> Iterator[Edit]:
    """Leave out each field with its value; the only one is as good as the whole write."""
    pairs = list(zip(parts[::2], parts[1::2], strict=False))
    for (start, _), (_, behind) in pairs if len(pairs) > 1 else []:
        if tokens[start - 1].text == ",":
            yield _without(tokens, start, behind)
        else:
            yield tokens[start].start, tokens[behind].end, ""


def _extremes(tokens: list[Token]) -> Iterator[Edit]:
    for index, token in enumerate(tokens):
        if token.text not in ("math.max", "math.min"):
            continue
        for start, behind in _arguments(tokens, index + 1):
            if tokens[start - 1].text == ",":
                yield _without(tokens, start, behind)
            else:
                yield tokens[start].start, tokens[behind].end, ""


def _steps(tokens: list[Token]) -> Iterator[Edit]:
    for token, number in pairwise(tokens):
        if token.text in ("+", "-") and number.text == "1":
            yield token.start, number.end, ""
