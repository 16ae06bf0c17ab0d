"""Parse an expression of metric math into a tree, without ever running it as a program.

    or:       and ( ("OR" | "||") and )*
    and:      compare ( ("AND" | "&&") compare )*
    compare:  sum ( ("==" | "!=" | "<=" | ">=" | "<" | ">") sum )?
    sum:      product ( ("+" | "-") product )*
    product:  power ( ("*" | "/") power )*
    power:    unary ( "^" power )?
    unary:    "-" unary | atom
    atom:     number | "text" | name | NAME "(" list ")" | "[" list "]" | "(" or ")"

https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/using-metric-math.html
"""

import re
from dataclasses import dataclass
from typing import Final

_TOKEN: Final = re.compile(
    r"""\s*(?:
        (?P<number>\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+)
      | (?P<text>"[^"]*"|'[^']*')
      | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
      | (?P<sign>==|!=|<=|>=|&&|\|\||[-+*/^<>()\[\],])
    )""",
    re.VERBOSE,
)
_MOST_CHARACTERS: Final = 2_048
_DEEPEST: Final = 50
_COMPARISONS: Final = frozenset({"==", "!=", "<=", ">=", "<", ">"})


class FormulaInvalid(ValueError):
    """An expression that CloudWatch, or this copy of it, cannot read; `formula` is it."""

    def __init__(self, formula: str, rule: str) -> None:
        self.formula = formula
        self.rule = rule
        super().__init__(f"{rule}: {formula}")


@dataclass(frozen=True, slots=True)
class Number:
    """A number as it is written."""

    value: float


@dataclass(frozen=True, slots=True)
class Text:
    """A text in quotes."""

    value: str


@dataclass(frozen=True, slots=True)
class Name:
    """The id of a metric or an expression, or a word like REPEAT."""

    value: str


@dataclass(frozen=True, slots=True)
class Call:
    """A function and what it is given."""

    function: str
    arguments: "tuple[Node, ...]"


@dataclass(frozen=True, slots=True)
class Listed:
    """Several series, `[m1, m2]`."""

    items: "tuple[Node, ...]"


@dataclass(frozen=True, slots=True)
class Operation:
    """Two sides and a sign; a unary minus has 0 on its left."""

    sign: str
    left: "Node"
    right: "Node"


Node = Number | Text | Name | Call | Listed | Operation


def parse(formula: str) -> Node:
    """Read an expression.

    Raises:
        FormulaInvalid: It does not follow the grammar.
    """
    if len(formula) > _MOST_CHARACTERS:
        raise FormulaInvalid(formula[:80], f"an expression has at most {_MOST_CHARACTERS} signs")
    return _Parser(formula).whole()


class _Parser:
    def __init__(self, formula: str) -> None:
        self._formula = formula
        self._tokens = self._split()
        self._at = 0
        self._depth = 0

    def whole(self) -> Node:
        node = self._either()
        if self._at < len(self._tokens):
            raise self._wrong(f"{self._tokens[self._at][1]!r} does not belong here")
        return node

    def _split(self) -> list[tuple[str, str]]:
        tokens, position = [], 0
        text = self._formula.rstrip()
        while position < len(text):
            found = _TOKEN.match(text, position)
            if found is None:
                raise self._wrong(f"{text[position]!r} means nothing")
            kind = str(found.lastgroup)
            tokens.append((kind, found[kind]))
            position = found.end()
        return tokens

    def _either(self) -> Node:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise self._wrong("nested too deep")
        node = self._both()
        while self._takes("OR", "||"):
            node = Operation("OR", node, self._both())
        self._depth -= 1
        return node

    def _both(self) -> Node:
        node = self._compared()
        while self._takes("AND", "&&"):
            node = Operation("AND", node, self._compared())
        return node

    def _compared(self) -> Node:
        node = self._sum()
        if (sign := self._takes(*_COMPARISONS)) is not None:
            return Operation(sign, node, self._sum())
        return node

    def _sum(self) -> Node:
        node = self._product()
        while (sign := self._takes("+", "-")) is not None:
            node = Operation(sign, node, self._product())
        return node

    def _product(self) -> Node:
        node = self._power()
        while (sign := self._takes("*", "/")) is not None:
            node = Operation(sign, node, self._power())
        return node

    def _power(self) -> Node:
        node = self._unary()
        if self._takes("^"):
            return Operation("^", node, self._power())
        return node

    def _unary(self) -> Node:
        if self._takes("-"):
            return Operation("-", Number(0.0), self._unary())
        return self._atom()

    def _atom(self) -> Node:
        kind, word = self._next()
        if kind == "number":
            return Number(float(word))
        if kind == "text":
            return Text(word[1:-1])
        if kind == "name":
            if self._takes("("):
                return Call(word, self._list(")"))
            return Name(word)
        if word == "(":
            node = self._either()
            self._expect(")")
            return node
        if word == "[":
            return Listed(self._list("]"))
        raise self._wrong(f"{word!r} does not belong here")

    def _list(self, end: str) -> tuple[Node, ...]:
        items: list[Node] = []
        if self._takes(end):
            return ()
        while True:
            items.append(self._either())
            if self._takes(end):
                return tuple(items)
            self._expect(",")

    def _next(self) -> tuple[str, str]:
        if self._at >= len(self._tokens):
            raise self._wrong("it ends too soon")
        self._at += 1
        return self._tokens[self._at - 1]

    def _takes(self, *words: str) -> str | None:
        if self._at < len(self._tokens):
            kind, word = self._tokens[self._at]
            if kind != "text" and word in words:
                self._at += 1
                return word
        return None

    def _expect(self, word: str) -> None:
        if not self._takes(word):
            raise self._wrong(f"{word!r} is missing")

    def _wrong(self, rule: str) -> FormulaInvalid:
        return FormulaInvalid(self._formula, rule)
