"""Parameters in expressions: `:name` gets its type when a step is built, and its value, as a literal, when a run begins.

Both change the text at tokens of the grammar, so that what stands in quotes stays, and a value is never read as anything else.
"""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from millstream.errors import InvalidExpression, InvalidSchema
from millstream.graph.expressions.refusal import shortened
from millstream.model.param_values import text_of
from millstream.model.types import parse_type, type_name

_LIKELY = re.compile(r":\s*[A-Za-z_`]")
_OPERAND = re.compile(r"[\w`'\")\]:]")
"""What a colon stands behind that is no parameter, as in `struct<a:int>`."""
_ESCAPES = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def with_types(text: str, types: Mapping[str, str], *, step: str | None) -> str:
    """`:day` becomes `CAST(:day AS date)`, unless it is that already; a parameter that nobody declared is refused."""

    def typed(place: _NamedParam) -> str:
        if place.name not in types:
            msg = f"expression {shortened(text)!r}: unknown parameter {place.name!r}"
            hint = f"declare it: Job(params={{{place.name!r}: 'string'}})"
            raise InvalidExpression(msg, code="EXPR-012", step=step, known=types, hint=hint)
        is_typed = place.cast_to == types[place.name]
        return place.text if is_typed else f"CAST(:{place.name} AS {types[place.name]})"

    return _replaced(text, typed)


def with_values(text: str, values: Mapping[str, Any]) -> str:
    """The text with literals for those parameters that have a value; the casts around them give these their types."""
    return _replaced(text, lambda place: literal_of(values[place.name]) if place.name in values else place.text)


def open_params(text: str) -> list[str]:
    """The parameters that stand in a text."""
    return [place.name for place in _places(text)]


def literal_of(value: Any) -> str:
    """The text of a value as a string literal, as the grammar reads it back."""
    return "'" + "".join(_ESCAPES.get(char, char) for char in text_of(value)) + "'"


class _NamedParam(NamedTuple):
    start: int
    end: int
    name: str
    cast_to: str
    """The type of the cast right around it, by its canonical name; empty where there is none."""

    @property
    def text(self) -> str:
        return f":{self.name}"


def _replaced(text: str, made: Callable[[_NamedParam], str]) -> str:
    parts, behind = [], 0
    for place in _places(text):
        parts += [text[behind : place.start], made(place)]
        behind = place.end
    return "".join([*parts, text[behind:]]) if parts else text


def _places(text: str) -> list[_NamedParam]:
    if not _LIKELY.search(text):
        return []
    # They bring the SQL parser along, which a job without parameters does not need.
    from sqlglot.dialects.spark import Spark
    from sqlglot.errors import SqlglotError
    from sqlglot.tokenizer_core import TokenType

    try:
        tokens = Spark().tokenize(text)
    except SqlglotError:
        return []  # whoever parses it says what is wrong
    return [
        _NamedParam(token.start, name.end + 1, name.text, _cast_around(tokens, place, text))
        for place, (token, name) in enumerate(itertools.pairwise(tokens))
        if token.token_type == TokenType.COLON
        and name.start == token.end + 1
        and name.text.isidentifier()
        and not (token.start and _OPERAND.match(text[token.start - 1]))
    ]


def _cast_around(tokens: Sequence[Any], place: int, text: str) -> str:
    """The type in `CAST(:name AS type)`, whose colon is the token at this place."""
    before = [token.text.upper() for token in tokens[max(0, place - 2) : place]]
    behind = tokens[place + 2 : place + 3]
    if before != ["CAST", "("] or not behind or behind[0].text.upper() != "AS":
        return ""
    depth, start = 1, behind[0].end + 1
    for token in tokens[place + 3 :]:
        depth += (token.text == "(") - (token.text == ")")
        if depth == 0:
            with contextlib.suppress(InvalidSchema):
                return type_name(parse_type(text[start : token.start]))
            return ""
    return ""
