"""Conditions that look at earlier rows of a match, as Python source: they are tried row by row, where SQL would be slow.

Whatever does not look at earlier rows becomes a cell, computed for a whole batch at once. Null is `None`, and a comparison
with null is neither true nor false, as in SQL.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import pyarrow as pa

from millstream.errors import InvalidStep
from millstream.graph.expressions.expression import Expression
from millstream.graph.expressions.refusal import Site
from millstream.graph.patterns.match_expression import MatchExpression, Reference, read_match_expression, with_clock
from millstream.graph.patterns.pattern import PatternSpec
from millstream.model.schema import Schema

KNOWN = "comparisons, + - *, / of doubles, AND, OR, NOT, IS NULL, BETWEEN, abs, coalesce"
_COMPARED = {"EQ": "==", "NEQ": "!=", "LT": "<", "LTE": "<=", "GT": ">", "GTE": ">="}
_PLAIN = re.compile(r"(constants|row)\[(\d+)\]")
_COUNTED = {"Add": "+", "Sub": "-", "Mul": "*"}


class MatchSource(NamedTuple):
    """Source of an expression over `row`, `cells`, `constants` and `values`, one item for each reference."""

    text: str
    references: tuple[Reference, ...]
    cells: tuple[Expression, ...]
    constants: tuple[Any, ...]


def check_conditions(pattern: PatternSpec, rows: Schema, *, step: str | None) -> None:
    """Refuse conditions that cannot be computed over rows with these columns."""
    for condition in pattern.conditions:
        if condition.text is not None:
            read = read_match_expression(condition.text, pattern, rows, beside=rows, step=step, predicate=True)
            if read.references:
                match_source(read, rows, step=step)


def match_source(
    condition: MatchExpression, rows: Schema, *, step: str | None, is_lenient: bool = False
) -> MatchSource:
    """Write a condition as Python; where it is lenient, what is divided by zero is null.

    Raises:
        InvalidStep: it uses something that is only offered for expressions over the row under test.
    """
    writer = _SourceWriter(condition, rows, step, is_lenient=is_lenient)
    text = writer.write(condition.tree)
    return MatchSource(
        text=text, references=condition.references, cells=tuple(writer.cells), constants=tuple(writer.constants)
    )


class _SourceWriter:
    """Writes one condition; names of variables are counted, so that each value is computed once."""

    def __init__(self, condition: MatchExpression, rows: Schema, step: str | None, *, is_lenient: bool) -> None:
        # It brings the SQL parser along.
        from millstream.graph.expressions.compile import Compiler

        self._text, self._rows, self._step = condition.expression.text, rows, step
        self._places = {reference.name: place for place, reference in enumerate(condition.references)}
        self._site = Site(text=self._text, step=step)
        self._compiler = Compiler
        self._typed = Compiler(condition.schema, self._site)
        self.cells: list[Expression] = []
        self.constants: list[Any] = []
        self._variables, self._is_lenient = 0, is_lenient

    def write(self, node: Any) -> str:
        """The source of a node."""
        from sqlglot import exp

        if isinstance(node, exp.Paren):
            return self.write(node.this)
        if isinstance(node, exp.Column) and node.name in self._places:
            return f"values[{self._places[node.name]}]"
        if not any(column.name in self._places for column in node.find_all(exp.Column)):
            return self._own(node)
        return self._operator(node)

    def _own(self, node: Any) -> str:
        """What the row under test gives alone."""
        compiler = self._compiler(with_clock(self._rows), self._site)
        term = compiler.term(node)
        if term.is_literal:
            self.constants.append(term.value)
            return f"constants[{len(self.constants) - 1}]"
        if term.direct is not None and term.direct[0] == "column" and term.direct[1] in self._rows:
            return f"row[{self._rows.names.index(term.direct[1])}]"
        self.cells.append(compiler.made(term))
        return f"cells[{len(self.cells) - 1}]"

    def _operator(self, node: Any) -> str:
        kind = type(node).__name__
        if kind in _COMPARED:
            return self._strict(_COMPARED[kind], node.this, node.expression)
        if kind in _COUNTED:
            return self._strict(_COUNTED[kind], node.this, node.expression)
        match kind:
            case "Div" if pa.types.is_floating(self._type(node)):
                return self._strict("/", node.this, node.expression)
            case "And" | "Or":
                return self._joined(node.this, node.expression, decided=kind == "Or")
            case "Not":
                inner = self._variable()
                return f"(None if ({inner} := {self.write(node.this)}) is None else not {inner})"
            case "Neg":
                inner = self._variable()
                return f"(None if ({inner} := {self.write(node.this)}) is None else -{inner})"
            case "Is" if type(node.expression).__name__ == "Null":
                return f"({self.write(node.this)} is None)"
            case "Between" if not node.args.get("symmetric"):
                low = self._strict(">=", node.this, node.args["low"])
                return self._both(low, self._strict("<=", node.this, node.args["high"]), decided=False)
            case "Anonymous":
                return self._call(node)
        raise self._refused(kind)

    def _call(self, node: Any) -> str:
        name, arguments = str(node.this).lower(), [self.write(argument) for argument in node.expressions]
        inner = self._variable()
        if name == "abs" and len(arguments) == 1:
            return f"(None if ({inner} := {arguments[0]}) is None else abs({inner}))"
        if name == "coalesce" and len(arguments) == 2:
            return f"({arguments[1]} if ({inner} := {arguments[0]}) is None else {inner})"
        raise self._refused(name)

    def _strict(self, symbol: str, left: Any, right: Any) -> str:
        """Null when either side is null. A decimal beside a double is widened to it, as in Spark."""
        kinds = self._type(left), self._type(right)
        if any(map(pa.types.is_temporal, kinds)) and (kinds[0] != kinds[1] or symbol in _COUNTED.values()):
            use = f"{kinds[0]} {symbol} {kinds[1]}"
            raise self._refused(use)
        (one, *first), (other, *second) = (self._operand(side) for side in (left, right))
        if any(map(pa.types.is_floating, kinds)):
            one = f"float({one})" if pa.types.is_decimal(kinds[0]) else one
            other = f"float({other})" if pa.types.is_decimal(kinds[1]) else other
        tests = [*first, *second, *([f"{other} == 0"] if symbol == "/" and self._is_lenient else [])]
        return f"(None if {' or '.join(tests)} else {one} {symbol} {other})" if tests else f"({one} {symbol} {other})"

    def _operand(self, node: Any) -> list[str]:
        """The source of an operand, and a test for null where it may be that."""
        text = self.write(node)
        if plain := _PLAIN.fullmatch(text):
            place = int(plain.group(2))
            is_sure = plain.group(1) == "constants" and self.constants[place] is not None
            if is_sure or (plain.group(1) == "row" and not self._rows[self._rows.names[place]].nullable):
                return [text]
        name = self._variable()
        return [name, f"({name} := {text}) is None"]

    def _joined(self, left: Any, right: Any, *, decided: bool) -> str:
        return self._both(self.write(left), self.write(right), decided=decided)

    def _both(self, left: str, right: str, *, decided: bool) -> str:
        """AND and OR over three values: one side can decide, and otherwise null stays."""
        one, other = self._variable(), self._variable()
        rest = f"({decided} if ({other} := {right}) is {decided} else None if {one} is None else {other})"
        return f"({decided} if ({one} := {left}) is {decided} else {rest})"

    def _type(self, node: Any) -> pa.DataType:
        return self._typed.term(node).type

    def _variable(self) -> str:
        self._variables += 1
        return f"v{self._variables}"

    def _refused(self, use: str) -> InvalidStep:
        msg = f"condition {self._text!r} does more with earlier rows than a condition can"
        return InvalidStep(
            msg, code="STEP-111", step=self._step, found=use.lower(), known=KNOWN, hint="use a Python condition"
        )
