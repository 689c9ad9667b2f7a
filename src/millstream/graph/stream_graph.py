"""`StreamGraph`: one node per step, with schemas, expressions and event-time sources resolved and checked."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import pyarrow as pa

from millstream.errors import InvalidStep
from millstream.graph.aggregate import Aggregate, result_type, where_name
from millstream.graph.enrich import AsyncMap, Lookup, looked_up_schema
from millstream.graph.expression import Expression, parse_expression, parse_predicate
from millstream.graph.join import (
    JOINS,
    LATE_RIGHT,
    WINDOW_FIELDS,
    Join,
    JoinOperation,
    TemporalJoin,
    WindowJoin,
    joined_schema,
    needs_event_time,
)
from millstream.graph.match_expression import measures_of
from millstream.graph.match_source import check_conditions
from millstream.graph.model import Requirements, StreamModel
from millstream.graph.rank import RANKS, Deduplicate, TopN, ranked_schema
from millstream.graph.step import (
    DEAD,
    LATE,
    MAIN,
    TIMED_OUT,
    TWO_INPUTS,
    CoProcess,
    EventTime,
    Filter,
    KeyedAggregate,
    MapBatches,
    Operation,
    Pattern,
    Process,
    PythonMap,
    Reduce,
    Select,
    Sink,
    Source,
    Step,
    StepInput,
    Union,
    Window,
    WithColumns,
)
from millstream.model.ids import StepId
from millstream.model.schema import Field, Schema, schema_of

DEAD_SCHEMA = schema_of("step string, error string, record string, at timestamp")
"""Dead letters: the step that refused the record, why, the record as JSON text, and the epoch's time."""
_TIME_TYPES = (pa.timestamp("us", tz="UTC"), pa.timestamp("us"), pa.int64())
_UNHASHABLE = (pa.types.is_nested,)
RUNS_AS: dict[type[Operation], str] = {
    Source: "source",
    EventTime: "batch",
    Filter: "expression",
    Select: "expression",
    WithColumns: "expression",
    PythonMap: "python",
    MapBatches: "batch",
    Union: "batch",
    KeyedAggregate: "keyed",
    Reduce: "keyed",
    Process: "keyed",
    CoProcess: "keyed",
    **dict.fromkeys((*JOINS, *RANKS), "keyed"),
    Lookup: "batch",
    AsyncMap: "python",
    Window: "keyed",
    Pattern: "keyed",
    Sink: "sink",
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StreamNode:
    """A step with everything known about it."""

    id: StepId
    uid: StepId
    operation: Operation
    inputs: tuple[StepInput, ...]
    input_schema: Schema | None
    """Of the first input."""
    outputs: dict[str, Schema]
    expressions: tuple[tuple[str, Expression], ...] = ()
    event_time: tuple[StepId, ...] = ()
    """The event-time steps whose watermarks this node sees."""
    has_given_id: bool = False
    other_schema: Schema | None = None
    """Of the second input of a step that takes two."""

    @property
    def keys(self) -> tuple[str, ...]:
        """Key columns, empty when not keyed."""
        return self.inputs[0].keys if self.inputs else ()

    @property
    def runs_as(self) -> str:
        """`source`, `expression`, `batch`, `python`, `keyed` or `sink`."""
        return RUNS_AS[type(self.operation)]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StreamGraph:
    """Resolved nodes in topological order."""

    name: str
    nodes: tuple[StreamNode, ...]
    requirements: Requirements

    def node(self, step_id: StepId) -> StreamNode:
        """The node with that id."""
        return next(node for node in self.nodes if node.id == step_id)

    def consumers(self, step_id: StepId, output: str = MAIN) -> list[StreamNode]:
        """Nodes that read an output of a step."""
        return [n for n in self.nodes if any(e.step == step_id and e.output == output for e in n.inputs)]


def resolve_graph(model: StreamModel) -> StreamGraph:
    """Resolve every step of a model."""
    nodes: dict[StepId, StreamNode] = {}
    for step in model.steps:
        nodes[step.id] = resolve(step, nodes)
    return StreamGraph(name=model.name, nodes=tuple(nodes.values()), requirements=model.requirements)


def resolve(step: Step, before: Mapping[StepId, StreamNode]) -> StreamNode:
    """Check one step against the nodes before it and derive its outputs."""
    schemas = [_output_of(edge, before, step.id) for edge in step.inputs]
    source_schema = schemas[0] if schemas else None
    for edge, schema in zip(step.inputs, schemas, strict=True):
        check_keys(edge.keys, schema, step.id)
    if isinstance(step.operation, TWO_INPUTS):
        _check_pair(step, schemas)
    expressions, outputs = _resolved(step, schemas)
    upstream = {time for edge in step.inputs for time in before[edge.step].event_time}
    event_time = (step.id,) if isinstance(step.operation, EventTime) else tuple(sorted(upstream))
    if isinstance(step.operation, Window) and not event_time:
        msg = "windows need event time"
        raise InvalidStep(
            msg, code="STEP-040", step=step.id, hint="call .event_time('column') on the stream before key_by"
        )
    if isinstance(step.operation, (Process, CoProcess)) and not event_time:
        _check_clocks(step.operation, step.id)
    if needs_event_time(step.operation) and not all(before[edge.step].event_time for edge in step.inputs):
        msg = "this join needs event time on both sides"
        raise InvalidStep(msg, code="STEP-040", step=step.id, hint="call .event_time('column') on both before key_by")
    return StreamNode(
        id=step.id,
        uid=step.uid,
        operation=step.operation,
        inputs=step.inputs,
        input_schema=source_schema,
        outputs=outputs,
        expressions=expressions,
        event_time=event_time,
        has_given_id=step.has_given_id,
        other_schema=schemas[1] if isinstance(step.operation, TWO_INPUTS) else None,
    )


def _check_pair(step: Step, schemas: list[Schema]) -> None:
    """Both sides of a keyed pair have keys of the same types, or rows that belong together would not meet."""
    left, right = step.inputs
    if right.partition == "broadcast":
        return
    types = [[schema[key].type for key in edge.keys] for edge, schema in zip((left, right), schemas, strict=True)]
    if types[0] != types[1]:
        msg = "the two streams are keyed by different types"
        raise InvalidStep(
            msg,
            code="STEP-047",
            step=step.id,
            found=", ".join(f"{key} {kind}" for key, kind in zip(right.keys, types[1], strict=False)),
            known=", ".join(f"{key} {kind}" for key, kind in zip(left.keys, types[0], strict=False)),
            hint="key both by the same number of columns of the same types; cast before key_by",
        )


def check_keys(keys: tuple[str, ...], schema: Schema, step: str) -> None:
    """Key columns exist and have a type with a stable hash."""
    for key in keys:
        column_of(key, schema, step)
        if any(test(schema[key].type) for test in _UNHASHABLE):
            msg = f"column {key!r} cannot be a key"
            raise InvalidStep(
                msg,
                code="STEP-041",
                step=step,
                found=schema[key].type_name,
                known="plain types",
                hint="key by a field of it",
            )


def column_of(name: str, schema: Schema, step: str) -> Field:
    """A column, or an error that lists the known ones."""
    if name not in schema:
        msg = f"unknown column {name!r}"
        raise InvalidStep(msg, code="STEP-042", step=step, known=schema.names, hint="use one of the known columns")
    return schema[name]


_Resolved = tuple[tuple[tuple[str, Expression], ...], dict[str, Schema]]


def _resolved(step: Step, schemas: list[Schema]) -> _Resolved:  # noqa: PLR0912
    operation = step.operation
    match operation:
        case Source():
            return (), _with_dead({MAIN: operation.schema}, operation.on_error)
        case EventTime():
            return (), {MAIN: _timed(operation, schemas[0], step.id)}
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
        case Sink():
            return (), {}


def _output_of(edge: StepInput, before: Mapping[StepId, StreamNode], step: str) -> Schema:
    outputs = before[edge.step].outputs
    if edge.output not in outputs:
        msg = f"step {edge.step!r} has no output {edge.output!r}"
        raise InvalidStep(msg, code="STEP-043", step=step, known=outputs, hint="use one of its outputs")
    return outputs[edge.output]


def _with_dead(outputs: dict[str, Schema], on_error: str) -> dict[str, Schema]:
    return {**outputs, DEAD: DEAD_SCHEMA} if on_error == "dead_letter" else outputs


def _timed(operation: EventTime, schema: Schema, step: str) -> Schema:
    field = column_of(operation.column, schema, step)
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
    return schema


def _projected(columns: tuple[tuple[str, str], ...], schema: Schema, step: str) -> _Resolved:
    parsed = tuple((name, parse_expression(text, schema, step=step)) for name, text in columns)
    return parsed, {MAIN: Schema(tuple(Field(name, e.type, _may_be_null(e, schema)) for name, e in parsed))}


def _may_be_null(expression: Expression, schema: Schema) -> bool:
    return expression.text not in schema or schema[expression.text].nullable


def _extended(columns: tuple[tuple[str, str], ...], schema: Schema, step: str) -> _Resolved:
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


def _check_clocks(operation: Process | CoProcess, step: str) -> None:
    for state in operation.states:
        if state.is_event_timed:
            msg = f"state {state.name!r} expires by event time, which the step does not have"
            raise InvalidStep(
                msg, code="STEP-040", step=step, hint="call .event_time('column') on the stream before key_by"
            )


def _joined(operation: JoinOperation, schemas: list[Schema], step: str) -> _Resolved:
    left, right = schemas
    main = joined_schema(left, right, operation, step)
    where = None if isinstance(operation, TemporalJoin) else operation.where
    expressions = () if where is None else (("where", parse_predicate(where, main, step=step)),)
    late = {LATE: schemas[0], LATE_RIGHT: schemas[1]} if needs_event_time(operation) else {}
    return expressions, {MAIN: main, **late}


def _windowed(step: Step, operation: Window, schema: Schema) -> _Resolved:
    if operation.aggregates:
        expressions, fields = _aggregated(operation.aggregates, schema, step.id)
        main = Schema(_key_fields(step, schema) + WINDOW_FIELDS + fields)
        return expressions, {MAIN: main, LATE: schema}
    return (), {MAIN: operation.schema or schema, LATE: schema}


def _matched(step: Step, operation: Pattern, schema: Schema) -> _Resolved:
    """Matches, late rows, and what timed out if anything is made of it."""
    check_conditions(operation.pattern, schema, step=step.id)
    for column in operation.order_by:
        column_of(column, schema, step.id)
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
