"""Steps as the user wrote them. Each is a plain value that checks itself when built."""

from __future__ import annotations

import dataclasses
from typing import ClassVar, Literal

from millstream.errors import InvalidStep
from millstream.graph.function import FunctionRef
from millstream.graph.operations.aggregate import Aggregate
from millstream.graph.operations.enrich import AsyncMap, Lookup
from millstream.graph.operations.join import JOINS, JoinOperation
from millstream.graph.operations.rank import RANKS, Deduplicate, TopN, WindowRank
from millstream.graph.operations.watermark import EventTime
from millstream.graph.patterns.pattern import PatternSpec
from millstream.graph.patterns.rules import Patterns
from millstream.graph.state import StateDescriptor
from millstream.graph.windows.checks import Accumulation, check_window
from millstream.graph.windows.evictor import EvictorSpec
from millstream.graph.windows.trigger import TriggerSpec
from millstream.graph.windows.window import WindowSpec
from millstream.model.connector import ConnectorSpec
from millstream.model.ids import StepId, step_id
from millstream.model.schema import Schema

OnError = Literal["fail", "skip", "dead_letter"]
Emit = Literal["epoch", "row", "end"]
PartitionKind = Literal["forward", "hash", "single", "rebalance", "broadcast"]
MAIN, LATE, DEAD, TIMED_OUT = "main", "late", "dead", "timed_out"


def step_uid(text: str, step: str | None) -> StepId:
    """Check a uid by the rule of step ids: it names state and files as well."""
    try:
        return step_id(text)
    except InvalidStep as problem:
        msg = "uid is not usable"
        raise InvalidStep(
            msg, code=problem.code, step=step, found=problem.found, known=problem.known, hint="choose another uid="
        ) from None


def _refuse_negative(name: str, found: int) -> None:
    if found < 0:
        msg = f"{name} is below zero"
        raise InvalidStep(msg, code="STEP-023", found=f"{found} ms", hint=f"correct {name}=")


def partition_text(partition: PartitionKind, keys: tuple[str, ...]) -> str:
    """How rows are partitioned, in words."""
    if partition == "single":
        return "single (all rows in one subtask)"
    return f"hash({', '.join(keys)})" if keys else partition


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StepInput:
    """Where a step's rows come from, and how they are partitioned on the way."""

    step: StepId
    output: str = MAIN
    partition: PartitionKind = "forward"
    keys: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if (self.partition == "hash") != bool(self.keys):
            msg = "a hash edge has keys and no other edge has"
            raise InvalidStep(
                msg, code="STEP-020", found=f"{self.partition} keys={self.keys}", hint="use key_by('column')"
            )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Rows from outside."""

    kind: ClassVar = "source"
    connector: ConnectorSpec
    schema: Schema
    on_error: OnError = "fail"
    credit: int | None = None
    """At most about that many rows per epoch; `None` shares the job's rows among its sources."""

    def __post_init__(self) -> None:
        if self.credit is not None and (type(self.credit) is not int or self.credit < 1):
            msg = "credit is not a whole number above zero"
            raise InvalidStep(msg, code="STEP-024", found=repr(self.credit), hint="correct credit=")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Keeps rows for which an expression is true."""

    kind: ClassVar = "filter"
    where: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Select:
    """Exactly these columns, each an expression."""

    kind: ClassVar = "select"
    columns: tuple[tuple[str, str], ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WithColumns:
    """All columns, with these added or replaced."""

    kind: ClassVar = "with_columns"
    columns: tuple[tuple[str, str], ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PythonMap:
    """A Python function per row: one row out (`map`), any number (`flat_map`), or keep/drop (`filter_rows`)."""

    kind: ClassVar = "python"
    shape: Literal["map", "flat_map", "filter_rows"]
    function: FunctionRef
    schema: Schema | None = None
    on_error: OnError = "fail"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MapBatches:
    """A Python function from Arrow batch to Arrow batch."""

    kind: ClassVar = "map_batches"
    function: FunctionRef
    schema: Schema


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Union:
    """The rows of several inputs with one schema."""

    kind: ClassVar = "union"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class KeyedAggregate:
    """Running built-in aggregates per key."""

    kind: ClassVar = "aggregate"
    aggregates: tuple[tuple[str, Aggregate], ...]
    emit: Emit = "epoch"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Reduce:
    """A running Python reduction per key; emits after every row."""

    kind: ClassVar = "reduce"
    function: FunctionRef


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A process function with state and timers."""

    kind: ClassVar = "process"
    function: FunctionRef
    schema: Schema
    states: tuple[StateDescriptor, ...] = ()
    outputs: tuple[tuple[str, Schema], ...] = ()
    on_error: OnError = "fail"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CoProcess:
    """A function with state and timers over two keyed streams, or over a keyed and a broadcast one."""

    kind: ClassVar = "co_process"
    function: FunctionRef
    schema: Schema
    states: tuple[StateDescriptor, ...] = ()
    broadcast: tuple[StateDescriptor, ...] = ()
    """State that every subtask holds whole; only rows of the broadcast stream change it."""
    outputs: tuple[tuple[str, Schema], ...] = ()
    on_error: OnError = "fail"


def _declared(function: FunctionRef | None, method: str) -> tuple[StateDescriptor, ...]:
    found = getattr(function.target, method, None) if function is not None else None
    return () if found is None else tuple(found())


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Windows per key, closed by built-in aggregates, a reduction or a window function: exactly one of them."""

    kind: ClassVar = "window"
    window: WindowSpec
    lateness: int = 0
    aggregates: tuple[tuple[str, Aggregate], ...] = ()
    reduce: FunctionRef | None = None
    process: FunctionRef | None = None
    schema: Schema | None = None
    trigger: TriggerSpec | None = None
    """`None`: the window fires when its time has passed, and again for late rows."""
    accumulation: Accumulation = "accumulating"
    evictor: EvictorSpec | None = None
    pane: bool = False
    outputs: tuple[tuple[str, Schema], ...] = ()
    key_states: tuple[StateDescriptor, ...] = dataclasses.field(init=False, default=())
    """The states that the window function declares per key, in the order of its class as it was written."""
    window_states: tuple[StateDescriptor, ...] = dataclasses.field(init=False, default=())
    """Those that it declares per window."""

    def __post_init__(self) -> None:
        _refuse_negative("allowed_lateness", self.lateness)
        object.__setattr__(self, "key_states", _declared(self.process, "key_descriptors"))
        object.__setattr__(self, "window_states", _declared(self.process, "window_descriptors"))
        check_window(self)

    @property
    def is_stateful_function(self) -> bool:
        """Whether the window function is one with a context and state."""
        return self.process is not None and hasattr(self.process.target, "window_descriptors")

    @property
    def has_options(self) -> bool:
        """Whether its windows do more than fire when their time has passed and when late rows come."""
        is_ruled = self.trigger is not None or self.evictor is not None or self.accumulation != "accumulating"
        return is_ruled or self.pane or self.is_stateful_function

    @property
    def is_triggered(self) -> bool:
        """Whether its windows are more than windows of event time that fire by default."""
        return self.has_options or not self.window.is_event_timed

    @property
    def keeps_rows(self) -> bool:
        """Whether the rows of a window are kept, and not only what they add up to."""
        is_sliding_count = self.window.kind == "count" and self.window.rows != self.window.every_rows
        return self.process is not None or self.evictor is not None or is_sliding_count


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """Rows of a key that follow each other in a given way; a match gives measures, or what a function makes of it."""

    kind: ClassVar = "pattern"
    pattern: PatternSpec
    function: FunctionRef | None = None
    measures: tuple[tuple[str, str], ...] = ()
    schema: Schema | None = None
    timed_out: FunctionRef | None = None
    timed_out_measures: tuple[tuple[str, str], ...] = ()
    timed_out_schema: Schema | None = None
    order_by: tuple[str, ...] = ()
    """Columns by which rows of one instant are put in order."""

    def __post_init__(self) -> None:
        if (self.function is None) == (not self.measures) or (self.function is None) != (self.schema is None):
            msg = "a pattern gives measures, or rows of a function with a schema"
            raise InvalidStep(msg, code="STEP-108", hint="call .measures(...), .select(...) or .process(...)")
        if self.timed_out is not None and (self.timed_out_measures or self.timed_out_schema is None):
            msg = "what timed out gives measures, or rows of a function with a schema"
            raise InvalidStep(msg, code="STEP-108", hint="correct timed_out= or give timed_out_schema=")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sink:
    """Rows to outside."""

    kind: ClassVar = "sink"
    connector: ConnectorSpec


Operation = (
    Source
    | EventTime
    | Filter
    | Select
    | WithColumns
    | PythonMap
    | MapBatches
    | Union
    | KeyedAggregate
    | Reduce
    | Process
    | CoProcess
    | JoinOperation
    | TopN
    | Deduplicate
    | WindowRank
    | Lookup
    | AsyncMap
    | Window
    | Pattern
    | Patterns
    | Sink
)
TWO_INPUTS = (CoProcess, *JOINS, Patterns)
"""Operations that take a left and a right input."""
KEYED = (KeyedAggregate, Reduce, Process, CoProcess, *JOINS, *RANKS, Window, Pattern, Patterns)
"""Operations that hold state per key and therefore need a hash edge."""
MAY_BE_SINGLE = (Pattern, Patterns)
"""Of these, those that may as well take all rows of a stream as those of one key."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of a job: an operation, its inputs and a stable id."""

    id: StepId
    operation: Operation
    inputs: tuple[StepInput, ...] = ()
    has_given_id: bool = False
    given_uid: StepId | None = None
    starts_chain: bool = False
    """Whether it is not fused behind the step before it, although it could be."""

    def __post_init__(self) -> None:
        is_pair = isinstance(self.operation, TWO_INPUTS)
        takes = 0 if isinstance(self.operation, Source) else 2 if isinstance(self.operation, Union) or is_pair else 1
        if isinstance(self.operation, Source) and self.inputs:
            msg = "a source takes no input"
            raise InvalidStep(msg, code="STEP-021", step=self.id, hint="remove the input")
        if len(self.inputs) < takes or (len(self.inputs) > takes and (takes == 1 or is_pair)):
            wanted = "two inputs" if is_pair else "at least two inputs" if takes == 2 else "one input"
            msg = f"a {self.operation.kind} step takes {wanted}"
            raise InvalidStep(msg, code="STEP-021", step=self.id, found=len(self.inputs), hint="connect it to a stream")
        is_hashed = any(edge.partition in {"hash", "single"} for edge in self.inputs)
        is_broadcast = is_pair and self.inputs[1].partition == "broadcast"
        if isinstance(self.operation, KEYED) != is_hashed and not is_broadcast:
            msg = "a keyed step needs a keyed stream" if not is_hashed else "only keyed steps take a keyed stream"
            raise InvalidStep(msg, code="STEP-022", step=self.id, hint="call key_by('column') right before it")
        if any(edge.partition == "single" for edge in self.inputs) and not isinstance(self.operation, MAY_BE_SINGLE):
            msg = "only patterns take all rows of a stream in one subtask"
            raise InvalidStep(msg, code="STEP-022", step=self.id, hint="call key_by('column') right before it")

    @property
    def uid(self) -> StepId:
        """Names what checkpoints keep of the step: its id, unless it was renamed."""
        return self.given_uid or self.id
