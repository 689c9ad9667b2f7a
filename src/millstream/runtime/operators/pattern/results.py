"""What a match gives: rows of a Python function, or measures over its rows, computed for many matches at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from millstream.errors import StepFailed
from millstream.graph.patterns.match_expression import MatchExpression
from millstream.model.counts import StepCounts
from millstream.model.schema import Schema
from millstream.records.batch import Batch
from millstream.records.codecs import batch_to_rows, column_of
from millstream.runtime.bad_records import USER_PROBLEMS, failure
from millstream.runtime.expressions import Projection, evaluated
from millstream.runtime.operators.contract import CHUNK, Emit
from millstream.runtime.operators.output import RowOutput
from millstream.runtime.operators.pattern.buffer import Row
from millstream.runtime.operators.pattern.compile import Program
from millstream.runtime.operators.pattern.conditions import Refuse, takes_two, without_columns
from millstream.runtime.operators.pattern.folds import Measured, measured

Match = dict[str, list[dict[str, Any]]]
"""The rows of each stage, in their order; a stage without rows has an empty list."""


class MatchInfo(NamedTuple):
    """What a function may ask about a match beside its rows."""

    pattern: str
    """The name of the pattern."""
    key: dict[str, Any]
    timestamp: int | None
    """When the match was known: the time of the row, or of the deadline, that decided it."""


class Results(Protocol):
    """Takes matches and hands on what they give."""

    phase: int

    def add(self, program: Program, key: tuple[Any, ...], taken: list[list[Row]], time: int | None) -> None:
        """One more match: its rows by stage."""
        ...

    def flush(self) -> None:
        """Hand on what is held."""
        ...


class FunctionResults:
    """Calls the user's function with each match."""

    def __init__(
        self, function: Callable[..., Any], keys: tuple[str, ...], rows: Schema, out: RowOutput, step: str
    ) -> None:
        self._function, self._keys, self._names, self._out, self._step = function, keys, rows.names, out, step
        self._takes_info = takes_two(function)

    @property
    def phase(self) -> int:
        """Whether what comes now belongs before the watermark or behind it."""
        return self._out.phase

    @phase.setter
    def phase(self, phase: int) -> None:
        self._out.phase = phase

    def add(self, program: Program, key: tuple[Any, ...], taken: list[list[Row]], time: int | None) -> None:
        """Call the function; it returns a row, several rows or none."""
        by_name = dict(zip(program.names, taken, strict=True))
        match: Match = {
            name: [dict(zip(self._names, row, strict=True)) for row in by_name[name]] for name in program.taken
        }
        try:
            made = self._function(match, self._info(program, key, time)) if self._takes_info else self._function(match)
            rows = _rows(made)
        except USER_PROBLEMS as problem:
            raise failure(self._step, match, problem) from problem
        for row in rows:
            self._out.add(row, time)

    def _info(self, program: Program, key: tuple[Any, ...], time: int | None) -> MatchInfo:
        return MatchInfo(program.pattern.name, dict(zip(self._keys, key, strict=True)), time)

    def flush(self) -> None:
        """Hand on what is held."""
        self._out.flush()


def _rows(made: Any) -> list[Any]:
    if made is None:
        return []
    return [made] if isinstance(made, Mapping) or not hasattr(made, "__iter__") else list(made)


class MeasureResults:
    """Collects the values that measures refer to, and computes the measures for many matches at once."""

    def __init__(
        self,
        measures: tuple[tuple[str, MatchExpression], ...],
        node_keys: Schema,
        rows: Schema,
        output: tuple[str, Schema],
        emit: Emit,
        counts: StepCounts,
        *,
        step: str,
        refuse: Refuse | None = None,
    ) -> None:
        self.phase = 0
        self._refuse = refuse
        self._keys, self._schema, self._step, self._emit, self._counts = node_keys, output[1], step, emit, counts
        self._output = output[0]
        self._projection = Projection([(name, measure.expression) for name, measure in measures])
        referred = {reference.name: (reference, measure) for _, measure in measures for reference in measure.references}
        self._fields = [pa.field(name, measure.schema[name].type) for name, (_, measure) in referred.items()]
        self._references = [
            (reference, rows.names.index(reference.column) if reference.column is not None else None)
            for reference, _ in referred.values()
        ]
        self._program: Program | None = None
        self._values: list[Measured] = []
        self._held: list[tuple[Any, ...]] = []
        self._times: list[int | None] = []

    def add(self, program: Program, key: tuple[Any, ...], taken: list[list[Row]], time: int | None) -> None:
        """Take the values of a match; a stage it does not have gives null."""
        if program is not self._program:
            self._use(program)
        self._held.append((*key, *[value(taken) for value in self._values]))
        self._times.append(time)
        if len(self._held) >= CHUNK:
            self.flush()

    def _use(self, program: Program) -> None:
        """Find the stages that the measures name in this pattern."""
        stages = {name: place for place, name in enumerate(program.names)}
        self._program = program
        self._values = [
            measured(reference, stages[reference.stage], column, field.type) if reference.stage in stages else _absent
            for (reference, column), field in zip(self._references, self._fields, strict=True)
        ]

    def flush(self) -> None:
        """Compute the measures and hand them on."""
        if not self._held:
            return
        columns = list(zip(*self._held, strict=True))
        keys = [column_of(values, field.type) for values, field in zip(columns, self._keys, strict=False)]
        values = [column_of(v, f.type) for v, f in zip(columns[len(keys) :], self._fields, strict=True)]
        # A reference may have the name of a key column only by quoting; then it is the same value.
        inputs = dict(zip(self._keys.names, keys, strict=True)) | dict(zip(_names(self._fields), values, strict=True))
        times = None if self._times[0] is None else pa.array(self._times, pa.int64())
        self._give(pa.RecordBatch.from_pydict(inputs) if inputs else without_columns(len(self._held)), times)
        self._held, self._times = [], []

    def _give(self, inputs: pa.RecordBatch, times: pa.Array | None) -> None:
        """Hand measures on; where failures are refused, of a match whose measures fail only that is handed on."""
        try:
            made = evaluated(self._step, self._projection.apply, inputs).columns
        except StepFailed as problem:
            if self._refuse is None:
                raise
            if inputs.num_rows == 1:
                self._refuse(batch_to_rows(inputs)[0], problem)
                return
            half = inputs.num_rows // 2
            for place in (slice(0, half), slice(half, inputs.num_rows)):
                self._give(inputs[place], None if times is None else times[place])
            return
        batch = pa.RecordBatch.from_arrays([*inputs.columns[: len(self._keys)], *made], schema=self._schema.arrow)
        self._counts.rows_out += batch.num_rows
        self._emit(self._output, Batch(batch, times), self.phase)


def _absent(_: list[list[Row]]) -> Any:
    return None


def _names(fields: list[pa.Field]) -> list[str]:
    return [field.name for field in fields]
