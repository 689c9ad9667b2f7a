"""Evaluates checked expressions on Arrow batches: pyarrow's kernels for simple ones, DuckDB for the rest.

Each thread has its own DuckDB connection, without files, network, extensions or threads of its own.
"""

from __future__ import annotations

import atexit
import itertools
import threading
import weakref
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.errors import MillstreamError, StepFailed
from millstream.graph.expressions.expression import BATCH, Expression
from millstream.graph.expressions.term import duckdb_type

_CONFIG = {
    "threads": "1",
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",
}
MAX_BOUND = 256
"""Relations kept ready in a thread, about one for each step and schema."""
_ROWS = "__ms_rows"
"""Stands in for columns when an expression uses none, so that the number of rows is kept."""
_WIDE = Context(prec=400, rounding=ROUND_HALF_UP)
_thread = threading.local()
_open: weakref.WeakSet[_DuckDb] = weakref.WeakSet()


class Predicate:
    """A boolean expression as a mask over rows."""

    def __init__(self, expression: Expression) -> None:
        assert expression.type == pa.bool_(), f"predicate {expression.text!r} is {expression.type}"
        self._projection = Projection([("keep", expression)])

    def mask(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """True for rows to keep; a null result counts as false."""
        keep = self._projection.apply(batch).column(0)
        return keep if keep.null_count == 0 else pc.fill_null(keep, pa.scalar(value=False))


class Projection:
    """Expressions as the columns of a new batch."""

    def __init__(self, columns: Sequence[tuple[str, Expression]]) -> None:
        self._columns = tuple(columns)
        self._schema = pa.schema([pa.field(name, expression.type) for name, expression in columns])
        self._queried = [expression for _, expression in columns if expression.direct is None]
        self._inputs = list(dict.fromkeys(name for expression in self._queried for name in expression.columns))
        terms = (f"CAST({e.sql} AS {duckdb_type(e.type)}) AS c{i}" for i, e in enumerate(self._queried))
        self._terms = ", ".join(terms)

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """A batch with exactly these columns and types, one row for each row of the input, in the same order.

        Raises:
            StepFailed: a value overflows, a conversion fails or a divisor is zero, as in Spark's ANSI mode.
        """
        queried = iter(self._evaluate(batch))
        arrays = [
            next(queried) if e.direct is None else _as(_direct(e.direct, batch), e.type, batch.num_rows)
            for _, e in self._columns
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _evaluate(self, batch: pa.RecordBatch) -> list[pa.Array]:
        if not self._queried or not batch.num_rows:
            return [pa.array([], expression.type) for expression in self._queried]
        engine = _engine()
        try:
            result = engine.run(self._terms, _table(batch, self._inputs))
        except engine.error as problem:
            raise self._failed(problem, batch) from problem
        return [_as(result.column(i), e.type, batch.num_rows) for i, e in enumerate(self._queried)]

    def _failed(self, problem: Exception, batch: pa.RecordBatch) -> StepFailed:
        """The error in the user's words; with several expressions, each is tried alone to find the one that fails."""
        if len(self._queried) > 1:
            for expression in self._queried:
                try:
                    Projection([("alone", expression)]).apply(batch)
                except StepFailed as found:
                    return found
        texts = "; ".join(expression.text for expression in self._queried)
        reason = str(problem).split("\n", maxsplit=1)[0]
        msg = f"expression failed on a row: {texts}"
        return StepFailed(msg, code="RUN-004", found=reason, hint="filter such rows before, or use TRY_CAST")


class _Input:
    """The batch a relation reads: the relation is bound once, the batch changes."""

    def __init__(self) -> None:
        self.table: pa.Table | None = None

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        assert self.table is not None, "a relation runs only while it has a batch"
        return self.table.__arrow_c_stream__(requested_schema)


def evaluated(step: str, evaluate: Callable[[pa.RecordBatch], Any], rows: pa.RecordBatch) -> Any:
    """Run an expression; its failure names the step."""
    try:
        return evaluate(rows)
    except MillstreamError as problem:
        raise at_step(problem, step) from problem


def at_step(problem: MillstreamError, step: str) -> StepFailed:
    """An evaluation error with the step it happened in."""
    fields = problem.fields() | {"step": problem.step or step}
    message = str(fields.pop("message"))
    return StepFailed(message, **fields)


class _DuckDb:
    """One DuckDB connection with the functions whose DuckDB form differs from Spark's."""

    def __init__(self) -> None:
        import duckdb

        self.error: type[Exception] = duckdb.Error
        connect: Any = duckdb.connect
        self._connection = connect(":memory:", config=_CONFIG)
        self._relations: dict[tuple[str, pa.Schema], tuple[_Input, Any, str]] = {}
        self._names = itertools.count()
        for name, function, arguments, result in _FUNCTIONS:
            self._connection.create_function(name, function, list(arguments), result, type="arrow")

    def run(self, terms: str, table: pa.Table) -> pa.Table:
        """Select terms from a table; the bound relation is kept, because binding costs more than a small batch."""
        key = (terms, table.schema)
        source, relation, _ = self._relations.get(key) or self._bind(key, table)
        source.table = table
        try:
            return relation.to_arrow_table()
        finally:
            source.table = None

    def _bind(self, key: tuple[str, pa.Schema], table: pa.Table) -> tuple[_Input, Any, str]:
        if len(self._relations) >= MAX_BOUND:
            _, _, oldest = self._relations.pop(next(iter(self._relations)))
            self._connection.unregister(oldest)
        source, name = _Input(), f"{BATCH}_{next(self._names)}"
        source.table = table
        self._connection.register(name, source)
        relation = self._connection.sql(f"SELECT {key[0]} FROM {name} AS {BATCH}")
        self._relations[key] = (source, relation, name)
        return self._relations[key]

    def close(self) -> None:
        """Release the connection and its functions."""
        self._relations.clear()
        self._connection.close()


def _engine() -> _DuckDb:
    engine: _DuckDb | None = getattr(_thread, "engine", None)
    if engine is None:
        engine = _thread.engine = _DuckDb()
        _open.add(engine)
    return engine


@atexit.register
def _close_engines() -> None:
    for engine in list(_open):
        engine.close()


def _table(batch: pa.RecordBatch, names: Sequence[str]) -> pa.Table:
    """The columns used, with timestamps as plain UTC values: DuckDB's own zoned type needs an extension."""
    if not names:
        return pa.table({_ROWS: pa.nulls(batch.num_rows, pa.bool_())})
    columns = [batch.column(name) for name in names]
    return pa.table([column.cast(_plain(column.type)) for column in columns], names=list(names))


def _plain(arrow: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(arrow):
        return pa.timestamp("us")
    if pa.types.is_list(arrow):
        return pa.list_(_plain(arrow.value_type))
    if pa.types.is_map(arrow):
        return pa.map_(_plain(arrow.key_type), _plain(arrow.item_type))
    if pa.types.is_struct(arrow):
        return pa.struct([pa.field(field.name, _plain(field.type)) for field in arrow])
    return arrow


def _as(value: Any, kind: pa.DataType, rows: int) -> pa.Array:
    """One array of exactly this type."""
    if isinstance(value, pa.Scalar):
        return pa.repeat(value.cast(kind), rows)
    if isinstance(value, pa.ChunkedArray):
        value = value.combine_chunks() if value.num_chunks != 1 else value.chunk(0)
    return value if value.type == kind else value.cast(kind)


def _direct(form: tuple[Any, ...], batch: pa.RecordBatch) -> Any:
    """Evaluate a form made of columns, literals and the names of kernels."""
    head, *rest = form
    if head == "column":
        return batch.column(rest[0])
    if head == "literal":
        return pa.scalar(*rest)
    return getattr(pc, head)(*(_direct(part, batch) for part in rest))


def _upper(texts: pa.Array) -> pa.Array:
    if pc.all(pc.string_is_ascii(texts)).as_py() is not False:
        return pc.ascii_upper(texts)
    return pa.array([None if text is None else text.upper() for text in texts.to_pylist()], pa.string())


def _lower(texts: pa.Array) -> pa.Array:
    if pc.all(pc.string_is_ascii(texts)).as_py() is not False:
        return pc.ascii_lower(texts)
    return pa.array([None if text is None else text.lower() for text in texts.to_pylist()], pa.string())


def _reverse(texts: pa.Array) -> pa.Array:
    return pc.utf8_reverse(texts)


def _round(values: pa.Array, places: pa.Array) -> pa.Array:
    """Round half up on the shortest decimal form, as Spark does; only values near a tie go through `Decimal`."""
    numbers = pc.fill_null(values, 0.0).to_numpy(zero_copy_only=False)
    power = 10.0 ** places[0].as_py()
    # Infinities and NaN pass through here too; what they give is replaced below.
    with np.errstate(invalid="ignore", over="ignore"):
        scaled = np.abs(numbers) * power
        rounded = np.copysign(np.floor(scaled + 0.5) / power, numbers)
        is_close = ~(np.abs(scaled - np.floor(scaled) - 0.5) > 1e-4) | ~(scaled < 2**40)
    unit = Decimal(1).scaleb(-places[0].as_py())
    for row in np.flatnonzero(is_close):
        value = float(numbers[row])
        if np.isfinite(value):
            value = float(Decimal(repr(value)).quantize(unit, context=_WIDE))
        rounded[row] = value
    return pc.if_else(values.is_valid(), pa.array(rounded), pa.scalar(None, pa.float64()))


_FUNCTIONS: tuple[tuple[str, Any, tuple[str, ...], str], ...] = (
    ("ms_upper", _upper, ("VARCHAR",), "VARCHAR"),
    ("ms_lower", _lower, ("VARCHAR",), "VARCHAR"),
    ("ms_reverse", _reverse, ("VARCHAR",), "VARCHAR"),
    ("ms_round", _round, ("DOUBLE", "INTEGER"), "DOUBLE"),
)
