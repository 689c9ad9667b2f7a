"""Where an expression stands and how it is refused: one code per kind of problem."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import NamedTuple

from millstream.errors import InvalidExpression

PARSE = "EXPR-001"
LIMIT = "EXPR-002"
CONSTRUCT = "EXPR-003"
FUNCTION = "EXPR-004"
COLUMN = "EXPR-005"
NOT_DETERMINISTIC = "EXPR-006"
TYPE = "EXPR-007"
ARGUMENTS = "EXPR-008"
LITERAL = "EXPR-009"
NOT_BOOLEAN = "EXPR-010"
UNTYPED = "EXPR-011"


class Site(NamedTuple):
    """The expression being read, so that every refusal can name it and its step."""

    text: str
    step: str | None
    what: str = "expression"

    def refuse(
        self, code: str, problem: str, *, found: object = None, known: object = None, hint: str | None = None
    ) -> InvalidExpression:
        """The error to raise; the message always carries the expression."""
        msg = f"{self.what} {shortened(self.text)!r}: {problem}"
        return InvalidExpression(msg, code=code, step=self.step, found=found, known=known, hint=hint)


def shortened(text: str) -> str:
    """Expression text short enough for a message."""
    return text if len(text) <= 200 else text[:197] + "..."


def nearest_first(name: str, known: Iterable[str]) -> str:
    """Known names as text, those that look like `name` before the others."""
    names = sorted(known)
    close = difflib.get_close_matches(name.lower(), names, n=3, cutoff=0.6)
    return ", ".join([*close, *(other for other in names if other not in close)]) or "nothing"
