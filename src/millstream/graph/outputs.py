"""What each operation gives: its outputs with their schemas, and its expressions, parsed and typed."""

from __future__ import annotations

import pyarrow as pa

from millstream.errors import InvalidStep
from millstream.graph.expressions.expression import Expression, parse_expression, parse_predicate
from millstream.graph.operations.aggregate import Aggregate, result_type, where_name
from millstream.graph.operations.enrich import AsyncMap, Lookup, looked_up_schema
from millstream.graph.operations.join import (
    LATE_RIGHT,
    WINDOW_FIELDS,
    Join,
    JoinOperation,
    TemporalJoin,
    WindowJoin,
    joined_schema,
    needs_event_time,
)
from millstream.graph.operations.rank import Deduplicate, TopN, WindowRank, instant_order, ranked_schema
from millstream.graph.operations.watermark import EventTime
from millstream.graph.patterns.match_expression import measures_of
from millstream.graph.patterns.match_source import check_conditions
from millstream.graph.patterns.rules import Patterns, check_updates, rule_matches
from millstream.graph.step import (
    DEAD,
    LATE,
    MAIN,
    TIMED_OUT,
    CoProcess,
    Filter,
    KeyedAggregate,
    MapBatches,
    Pattern,
    Process,
    PythonMap,
    Reduce,
    Select,
    Sink,
    Source,
    Step,
    Union,
    Window,
    WithColumns,
)
from millstream.model.schema import Field, Schema, schema_of

DEAD_SCHEMA = schema_of("step string, error string, record string, at timestamp")
"""Dead letters: the step that refused the record, why, the record as JSON text, and the epoch's time."""
PANE_FIELDS = (Field("pane_index", pa.int64(), nullable=False), Field("pane_timing", pa.string(), nullable=False))
_TIME_TYPES = (pa.timestamp("us", tz="UTC"), pa.timestamp("us"), pa.int64())


def column_of(name: str, schema: Schema, step: str) -> Field:
    """A column, or an error that lists the known ones."""
    if name not in schema:
        msg = f"unknown column {name!r}"
        raise InvalidStep(msg, code="STEP-042", step=step, known=schema.names, hint="use one of the known columns")
    return schema[name]


Resolved = tuple[tuple[tuple[str, Expression], ...], dict[str, Schema]]


def outputs_of(step: Step, schemas: list[Schema]) -> Resolved:  # noqa: PLR0912
    """The expressions of a step, parsed, and the schema of each of its outputs."""
    operation = step.operation
    match operation:
        case Source():
            return (), _with_dead({MAIN: operation.schema}, operation.on_error)
        case EventTime():
            return _timed(operation, schemas[0], step.id)
        case Filter():
            return (("where", parse_predicate(operation.where, schemas[0], step=step.id)),), {MAIN: schemas[0]}
        case Select():
            return _projected(operation.columns, schemas[0], step.id)
        case WithColumns():
            return _extended(operation.columns, schemas[0], step.id)
        case PythonMap():
            return (), _with_dead({MAIN: operation.schema or schemas[0]}, operation.on_error)
        case MapBatches():
            return (), {MAIN: operation.schema}
        case Union():
            return (), {MAIN: _united(schemas, step.id)}
        case KeyedAggregate():
            expressions, fields = _aggregated(operation.aggregates, schemas[0], step.id)
            return expressions, {MAIN: Schema(_key_fields(step, schemas[0]) + fields)}
        case Reduce():
            return (), {MAIN: schemas[0]}
        case Process() | CoProcess():
            return (), _with_dead({MAIN: operation.schema, **dict(operation.outputs)}, operation.on_error)
        case TopN() | Deduplicate():
            return (), {MAIN: ranked_schema(schemas[0], operation, step.id)}
        case WindowRank():
            return (), {MAIN: ranked_schema(schemas[0], operation, step.id), LATE: schemas[0]}
        case Lookup():
            return (), {MAIN: looked_up_schema(schemas[0], operation, step.id)}
        case AsyncMap():
            return (), _with_dead({MAIN: operation.schema}, operation.on_error)
        case Join() | WindowJoin() | TemporalJoin():
            return _joined(operation, schemas, step.id)
        case Window():
            return _windowed(step, operation, schemas[0])
        case Pattern():
            return _matched(step, operation, schemas[0])
        case Patterns():
            check_order(operation.order_by, schemas[0], step.id)
            check_updates(step.inputs[1].partition, schemas[1], step.id)
            made = rule_matches(Schema(_key_fields(step, schemas[0])), step.id)
            return (), {MAIN: made, TIMED_OUT: made, LATE: schemas[0], DEAD: DEAD_SCHEMA}
        case Sink():
            return (), {}


def _with_dead(outputs: dict[str, Schema], on_error: str) -> dict[str, Schema]:
    return {**outputs, DEAD: DEAD_SCHEMA} if on_error == "dead_letter" else outputs


def _timed(operation: EventTime, schema: Schema, step: str) -> Resolved:
    spec = operation.watermark
    carried = [] if spec is None or spec.column is None else [spec.column]
    for field in (column_of(name, schema, step) for name in (operation.column, *carried)):
        if field.type not in _TIME_TYPES:
            msg = f"column {field.name!r} cannot be event time"
            raise InvalidStep(
                msg,
                code="STEP-044",
                step=step,
                found=field.type_name,
                known="timestamp, or long as milliseconds",
                hint="cast it first",
            )
    where = None if spec is None else spec.where
    expressions = () if where is None else (("where", parse_predicate(where, schema, step=step)),)
    return expressions, _with_dead({MAIN: schema}, operation.on_error)


def _projected(columns: tuple[tuple[str, str], ...], schema: Schema, step: str) -> Resolved:
    parsed = tuple((name, parse_expression(text, schema, step=step)) for name, text in columns)
    return parsed, {MAIN: Schema(tuple(Field(name, e.type, _may_be_null(e, schema)) for name, e in parsed))}


def _may_be_null(expression: Expression, schema: Schema) -> bool:
    return expression.text not in schema or schema[expression.text].nullable


def _extended(columns: tuple[tuple[str, str], ...], schema: Schema, step: str) -> Resolved:
    given = dict(columns)
    kept = [(name, given.get(name, f"`{name}`")) for name in schema.names]
    return _projected(tuple(kept + [(n, t) for n, t in columns if n not in schema]), schema, step)


def _united(schemas: list[Schema], step: str) -> Schema:
    first = schemas[0]
    for other in schemas[1:]:
        if [(f.name, f.type) for f in other] != [(f.name, f.type) for f in first]:
            msg = "union of different schemas"
            raise InvalidStep(
                msg, code="STEP-045", step=step, found=other.ddl, known=first.ddl, hint="select the same columns first"
            )
    return Schema(tuple(Field(f.name, f.type, any(s[f.name].nullable for s in schemas)) for f in first))


def _key_fields(step: Step, schema: Schema) -> tuple[Field, ...]:
    return tuple(schema[key] for key in step.inputs[0].keys)


def _aggregated(
    aggregates: tuple[tuple[str, Aggregate], ...], schema: Schema, step: str
) -> tuple[tuple[tuple[str, Expression], ...], tuple[Field, ...]]:
    if not aggregates:
        msg = "aggregate needs at least one aggregate"
        raise InvalidStep(msg, code="STEP-046", step=step, hint="for example total=ms.sum('amount')")
    expressions, fields = [], []
    for name, aggregate in aggregates:
        parsed = None if aggregate.of is None else parse_expression(aggregate.of, schema, step=step)
        where = None if aggregate.where is None else parse_predicate(aggregate.where, schema, step=step)
        if parsed is not None and where is not None and parsed.direct is None:
            # It might fail on rows that do not count.
            parsed, where = parsed.only_where(where), None
        expressions += [] if parsed is None else [(name, parsed)]
        expressions += [] if where is None else [(where_name(name), where)]
        kind = result_type(aggregate, None if parsed is None else parsed.type, step=step)
        fields.append(Field(name, kind, not aggregate.never_null))
    return tuple(expressions), tuple(fields)


def _joined(operation: JoinOperation, schemas: list[Schema], step: str) -> Resolved:
    left, right = schemas
    main = joined_schema(left, right, operation, step)
    where = None if isinstance(operation, TemporalJoin) else operation.where
    expressions = () if where is None else (("where", parse_predicate(where, main, step=step)),)
    late = {LATE: schemas[0], LATE_RIGHT: schemas[1]} if needs_event_time(operation) else {}
    return expressions, {MAIN: main, **late}


def _windowed(step: Step, operation: Window, schema: Schema) -> Resolved:
    late = {LATE: schema} if operation.window.is_event_timed else {}
    if operation.evictor is not None:
        operation.evictor.check(schema, step.id)
    if operation.reduce is None and operation.process is None:
        expressions, fields = _aggregated(operation.aggregates, schema, step.id)
        bounds = WINDOW_FIELDS if operation.window.has_bounds else ()
        panes = PANE_FIELDS if operation.pane else ()
        return expressions, {MAIN: Schema(_key_fields(step, schema) + bounds + panes + fields), **late}
    return (), {MAIN: operation.schema or schema, **late, **dict(operation.outputs)}


def check_order(columns: tuple[str, ...], schema: Schema, step: str) -> None:
    """Columns that order rows of one instant exist and have an order."""
    for name, _ in instant_order(columns, schema):
        field = column_of(name, schema, step)
        if pa.types.is_nested(field.type):
            msg = f"column {name!r} has no order"
            raise InvalidStep(
                msg,
                code="STEP-180",
                step=step,
                found=field.type_name,
                known="plain types",
                hint="order by a field of it",
            )


def _matched(step: Step, operation: Pattern, schema: Schema) -> Resolved:
    """Matches, late rows, and what timed out if anything is made of it."""
    check_conditions(operation.pattern, schema, step=step.id)
    check_order(operation.order_by, schema, step.id)
    keys = Schema(_key_fields(step, schema))
    expressions: list[tuple[str, Expression]] = []
    outputs = {LATE: schema}
    for output, measures, given in (
        (MAIN, operation.measures, operation.schema),
        (TIMED_OUT, operation.timed_out_measures, operation.timed_out_schema),
    ):
        read = measures_of(measures, operation.pattern, schema, keys, step=step.id)
        prefix = "" if output == MAIN else f"{output}."
        expressions += [(f"{prefix}{name}", measure.expression) for name, measure in read]
        if read:
            outputs[output] = Schema((*keys, *(Field(name, measure.expression.type) for name, measure in read)))
        elif given is not None:
            outputs[output] = given
    return tuple(expressions), outputs
