"""Conditions of stages: those that look at one row only are computed for whole batches, the others when they are tried."""

from __future__ import annotations

import functools
import inspect
import itertools
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from millstream.errors import InvalidStep, StepFailed
from millstream.graph.expressions.expression import Expression
from millstream.graph.patterns.match_expression import (
    PROCESSING_TIME,
    MatchExpression,
    Reference,
    folded_type,
    read_match_expression,
)
from millstream.graph.patterns.match_source import MatchSource, match_source
from millstream.graph.patterns.pattern import PatternSpec
from millstream.graph.patterns.stage import Clause, Condition
from millstream.model.schema import Schema
from millstream.records.codecs import batch_to_rows
from millstream.runtime.bad_records import USER_PROBLEMS, failure
from millstream.runtime.expressions import Projection, evaluated
from millstream.runtime.operators.pattern.buffer import BufferNode, HeldEvent
from millstream.runtime.operators.pattern.context import MatchContext, record_of
from millstream.runtime.operators.pattern.folds import StageFold, is_kept, value_of

Call = Callable[[BufferNode | None, HeldEvent], bool]
Refuse = Callable[[dict[str, Any], Exception], None]
"""Takes a row that cannot be judged, and why."""
ALWAYS = 1
"""The bit that every row has."""
MAX_BITS = 60
_NAMED = re.compile(r"\b(values|cells|row)\[(\d+)\]")


class Sourced(NamedTuple):
    """A condition as Python source, the number of its stage, and where its cells begin among those of the pattern."""

    source: MatchSource
    own: int
    first_cell: int


class Test:
    """Whether a row fits: a bit that was computed before, and a call for what depends on the match so far."""

    __slots__ = ("call", "mask", "sources")

    def __init__(
        self, mask: int = ALWAYS, call: Call | None = None, sources: tuple[Sourced, ...] | None = None
    ) -> None:
        self.mask, self.call = mask, call
        self.sources = () if call is None else sources
        """What the call does, as sources that must all be true; `None` where it does something else."""

    def holds(self, node: BufferNode | None, event: HeldEvent) -> bool:
        """Try a row behind a chain."""
        return bool(event.bits & self.mask) and (self.call is None or self.call(node, event))


class PatternConditions:
    """All conditions of one pattern over rows of one schema."""

    def __init__(self, pattern: PatternSpec, rows: Schema, *, step: str, is_lenient: bool = False) -> None:
        self._pattern, self._rows, self._step, self._is_lenient = pattern, rows, step, is_lenient
        self._stages = {name: place for place, name in enumerate(pattern.names)}
        self._bits: list[list[tuple[str, int]]] = []
        self._expressions: list[Expression] = []
        self._cells: list[Expression] = []
        self._fold_places: dict[str, int] = {}
        self.folds: list[StageFold] = []
        self.stages = [
            self._test(stage.where, place) if stage.where else Test() for place, stage in enumerate(pattern.flat)
        ]
        self._untils: dict[int, Test] = {}
        self.now = 0
        """The clock of the epoch, which conditions may ask for."""

    def until(self, condition: Condition, own: int) -> Test:
        """The test that ends a repeated stage; `own` is the number of that stage."""
        if id(condition) not in self._untils:
            self._untils[id(condition)] = self._test((Clause(condition=condition),), own)
        return self._untils[id(condition)]

    def bind(self) -> None:
        """All tests are known: prepare what computes their bits and cells."""
        self._initial = tuple(fold.initial for fold in self.folds)
        self._folded = {fold.stage for fold in self.folds}
        self._projection = Projection(
            [(f"e{place}", expression) for place, expression in enumerate([*self._expressions, *self._cells])]
        )
        used = {name for expression in [*self._expressions, *self._cells] for name in expression.columns}
        self._columns = [field.name for field in self._rows if field.name in used]
        self._uses_clock = PROCESSING_TIME in used

    def _test(self, clauses: tuple[Clause, ...], own: int) -> Test:
        read = [(clause, self._read(clause.condition)) for clause in clauses]
        simple = [(clause.join, meaning) for clause, meaning in read if isinstance(meaning, Expression)]
        others = [(clause, meaning) for clause, meaning in read if not isinstance(meaning, Expression)]
        if not others:
            return Test(self._bit(simple))
        if all(clause.join == "and" for clause, _ in read[1:]):
            made = [self._call(clause.condition, meaning, own) for clause, meaning in others]
            calls = [call for call, _ in made]
            sources = tuple(sourced for _, sourced in made if sourced is not None)
            mask = self._bit([("and", expression) for _, expression in simple]) if simple else ALWAYS
            whole = calls[0] if len(calls) == 1 else _all(calls)
            return Test(mask, whole, sources if len(sources) == len(calls) else None)
        tests = [
            (clause.join, Test(self._bit([("and", meaning)])))
            if isinstance(meaning, Expression)
            else (clause.join, Test(ALWAYS, self._call(clause.condition, meaning, own)[0]))
            for clause, meaning in read
        ]
        return Test(ALWAYS, _joined(tests))

    def _read(self, condition: Condition) -> Expression | MatchExpression | None:
        """A condition over one row as an expression; `None` for a Python function."""
        if condition.text is None:
            return None
        read = read_match_expression(
            condition.text, self._pattern, self._rows, beside=self._rows, step=self._step, predicate=True
        )
        return read if read.references else read.expression

    def _bit(self, parts: Sequence[tuple[str, Expression]]) -> int:
        """A bit for expressions joined from left to right."""
        places = []
        for join, expression in parts:
            places.append((join, len(self._expressions)))
            self._expressions.append(expression)
        self._bits.append(places)
        if len(self._bits) >= MAX_BITS:
            msg = "a pattern has too many conditions"
            raise InvalidStep(msg, code="STEP-112", step=self._step, known=f"at most {MAX_BITS}", hint="join some")
        return 1 << len(self._bits)

    def _call(self, condition: Condition, read: MatchExpression | None, own: int) -> tuple[Call, Sourced | None]:
        if read is None:
            assert condition.function is not None, "a condition without text is a function"
            return self._python(condition.function.target), None
        source = match_source(read, self._rows, step=self._step, is_lenient=self._is_lenient)
        sourced = Sourced(source, own, len(self._cells))
        self._cells += source.cells
        return self._sourced(*sourced), sourced

    def _python(self, function: Callable[..., Any]) -> Call:
        names, stages, step = self._rows.names, self._stages, self._step
        takes_context = takes_two(function)

        def call(node: BufferNode | None, event: HeldEvent) -> bool:
            record = record_of(event, names)
            try:
                if takes_context:
                    return bool(function(record, MatchContext(node, event, stages, names, self.now)))
                return bool(function(record))
            except USER_PROBLEMS as problem:
                raise failure(step, record, problem) from problem

        return call

    def _sourced(self, source: MatchSource, own: int, first_cell: int) -> Call:
        """A function of the source; names of values stand for the calls that give them."""
        scope: dict[str, Any] = {"constants": source.constants}
        for place, reference in enumerate(source.references):
            stage = self._stages[reference.stage]
            column = None if reference.column is None else self._rows.names.index(reference.column)
            fold = self._fold(reference, stage, column) if is_kept(reference) else None
            scope[f"get{place}"] = value_of(reference, stage, column, own, fold)
        forms = {"values": "get{0}(node, event)", "cells": "event.cells[{1}]", "row": "event.row[{0}]"}

        def bound(named: re.Match[str]) -> str:
            place = int(named.group(2))
            return forms[named.group(1)].format(place, first_cell + place)

        text = _NAMED.sub(bound, source.text)
        made: Call = eval(f"lambda node, event: {text} is True", scope)
        step, names = self._step, self._rows.names

        def call(node: BufferNode | None, event: HeldEvent) -> bool:
            try:
                return made(node, event)
            except (ArithmeticError, TypeError) as problem:
                raise failure(step, record_of(event, names), problem) from problem

        return call

    def _fold(self, reference: Reference, stage: int, column: int | None) -> tuple[int, StageFold]:
        if reference.name not in self._fold_places:
            self._fold_places[reference.name] = len(self.folds)
            self.folds.append(StageFold(reference, stage, column, folded_type(reference, self._rows)))
        place = self._fold_places[reference.name]
        return place, self.folds[place]

    def fold_place(self, reference: Reference) -> int:
        """Where a reference stands among the running aggregates."""
        return self._fold_places[reference.name]

    def folded(self, before: BufferNode | None, stage: int, event: HeldEvent) -> tuple[Any, ...]:
        """The running aggregates of a chain with one more row."""
        held = self._initial if before is None else before.folds
        if stage not in self._folded:
            return held
        return tuple(
            fold.added(value, event.row) if fold.stage == stage else value
            for fold, value in zip(self.folds, held, strict=True)
        )

    def examine_each(
        self, batch: pa.RecordBatch, refuse: Refuse
    ) -> tuple[npt.NDArray[np.int64], list[tuple[Any, ...]]]:
        """As `examine`; a row on which an expression fails is refused, and no condition is true of it."""
        try:
            return self.examine(batch)
        except StepFailed as problem:
            if batch.num_rows == 1:
                refuse(batch_to_rows(batch)[0], problem)
                return np.full(1, ALWAYS, np.int64), [(None,) * len(self._cells)]
        half = batch.num_rows // 2
        (bits, cells), (more, others) = (
            self.examine_each(part, refuse) for part in (batch.slice(0, half), batch.slice(half))
        )
        return np.concatenate([bits, more]), cells + others

    def examine(self, batch: pa.RecordBatch) -> tuple[npt.NDArray[np.int64], list[tuple[Any, ...]]]:
        """The bits and the cells of each row."""
        rows: int = batch.num_rows
        bits = np.full(rows, ALWAYS, np.int64)
        if not self._expressions and not self._cells:
            return bits, [()] * rows
        made = evaluated(self._step, self._projection.apply, self._used(batch)).columns
        known = len(self._expressions)
        masks = [column.fill_null(False).to_numpy(zero_copy_only=False) for column in made[:known]]  # noqa: FBT003
        for place, parts in enumerate(self._bits):
            bits |= _fold_masks(parts, masks).astype(np.int64) << (place + 1)
        cells = list(zip(*(column.to_pylist() for column in made[known:]), strict=True)) or [()] * rows
        return bits, cells

    def _used(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The columns that conditions name."""
        columns = [batch.column(name) for name in self._columns]
        names = list(self._columns)
        if self._uses_clock:
            columns.append(pa.array(np.full(batch.num_rows, self.now, np.int64)))
            names.append(PROCESSING_TIME)
        return pa.RecordBatch.from_arrays(columns, names=names) if names else without_columns(batch.num_rows)


def without_columns(rows: int) -> pa.RecordBatch:
    """So many rows of nothing."""
    return pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))


def _fold_masks(parts: list[tuple[str, int]], masks: list[Any]) -> Any:
    made = masks[parts[0][1]]
    for join, place in parts[1:]:
        made = made & masks[place] if join == "and" else made | masks[place]
    return made


def _all(calls: list[Call]) -> Call:
    return lambda node, event: all(call(node, event) for call in calls)


def _joined(tests: Sequence[tuple[str, Test]]) -> Call:
    def call(node: BufferNode | None, event: HeldEvent) -> bool:
        held = tests[0][1].holds(node, event)
        for join, test in itertools.islice(tests, 1, None):
            if (join == "and") == held:
                held = test.holds(node, event)
        return held

    return call


@functools.lru_cache(maxsize=256)
def takes_two(function: Callable[..., Any]) -> bool:
    """Whether a Python condition wants to see the match so far."""
    parameters = inspect.signature(function).parameters.values()
    return sum(p.kind in {p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD} for p in parameters) >= 2
