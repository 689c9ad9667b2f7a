"""What a function of the table is, and the checks its arguments go through."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from millstream.graph.expressions import term as t
from millstream.graph.expressions.casts import cast, widen
from millstream.graph.expressions.refusal import ARGUMENTS, LITERAL, TYPE, Site
from millstream.graph.expressions.term import Term, named

UNLIMITED = 64


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """One function: how it is written, what it does, and the SQL it becomes."""

    usage: str
    doc: str
    build: Callable[[Arguments], Term]
    least: int = 1
    most: int = 1


@dataclasses.dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of one call; each accessor checks the type and refuses with the function's name."""

    name: str
    terms: Sequence[Term]
    site: Site

    def __len__(self) -> int:
        return len(self.terms)

    @property
    def may_raise(self) -> bool:
        """Whether evaluating any argument can fail."""
        return any(term.may_raise for term in self.terms)

    def counted(self, function: Function) -> Arguments:
        """The same arguments, after a check of their number."""
        if not function.least <= len(self.terms) <= function.most:
            problem = f"{self.name} takes other arguments"
            raise self.site.refuse(ARGUMENTS, problem, found=f"{len(self.terms)} arguments", known=function.usage)
        return self

    def string(self, index: int) -> str:
        """SQL of a string argument; numbers other than float and double, dates and booleans are converted."""
        term = self.terms[index]
        if term.type in {t.STRING, t.VOID}:
            return widen(term, t.STRING).sql
        if t.is_atomic(term.type) and not t.is_fractional(term.type) and term.type != t.BINARY:
            return cast(term, t.STRING, self.site).sql
        raise self._wrong(index, "a string")

    def integer(self, index: int) -> str:
        """SQL of an argument of type int or narrower."""
        term = self.terms[index]
        if term.type in {t.BYTE, t.SHORT, t.INT, t.VOID}:
            return widen(term, t.INT).sql
        raise self._wrong(index, "an int")

    def long(self, index: int) -> str:
        """SQL of a whole number."""
        term = self.terms[index]
        if t.is_integral(term.type) or term.type == t.VOID:
            return widen(term, t.LONG).sql
        raise self._wrong(index, "a whole number")

    def number(self, index: int) -> Term:
        """A number."""
        term = self.terms[index]
        if term.type == t.VOID:
            return widen(term, t.DOUBLE)
        if not t.is_numeric(term.type):
            raise self._wrong(index, "a number")
        return term

    def double(self, index: int) -> str:
        """SQL of a number as a double."""
        return widen(self.number(index), t.DOUBLE).sql

    def date(self, index: int) -> str:
        """SQL of a date; a timestamp gives its date."""
        return self._moment(index, t.DATE)

    def timestamp(self, index: int) -> str:
        """SQL of a timestamp; a date gives its midnight."""
        return self._moment(index, t.TIMESTAMP)

    def _moment(self, index: int, target: pa.DataType) -> str:
        term = self.terms[index]
        if t.is_temporal(term.type) or term.type == t.VOID:
            return cast(term, target, self.site).sql
        raise self._wrong(index, "a date or timestamp")

    def literal(self, index: int, kind: type, what: str) -> Any:
        """The value of an argument that must be written as a literal."""
        term = self.terms[index]
        if term.is_literal and isinstance(term.value, kind) and not isinstance(term.value, bool):
            return term.value
        problem = f"argument {index + 1} of {self.name} must be {what}, written as a literal"
        raise self.site.refuse(LITERAL, problem, found=named(term.type), hint="write the value itself")

    def result(self, sql: str, kind: pa.DataType, *, may_raise: bool = False) -> Term:
        """The call as a term."""
        return Term(sql=sql, type=kind, may_raise=may_raise or self.may_raise)

    def _wrong(self, index: int, expected: str) -> Exception:
        problem = f"argument {index + 1} of {self.name} must be {expected}"
        return self.site.refuse(
            TYPE, problem, found=named(self.terms[index].type), hint="convert it with CAST(... AS ...)"
        )
