"""Every operation by its kind: ours, and those that other packages bring."""

from __future__ import annotations

import inspect
from typing import Any

from millstream import registry
from millstream.errors import InvalidStep
from millstream.graph.operation import Operation
from millstream.graph.operations.aggregate import KeyedAggregate, Reduce
from millstream.graph.operations.changes import AsChangelog, AsRows, Normalize
from millstream.graph.operations.endpoints import Sink, Source
from millstream.graph.operations.enrich import AsyncMap, Lookup
from millstream.graph.operations.join import Join, TemporalJoin, WindowJoin
from millstream.graph.operations.pattern import MatchPattern
from millstream.graph.operations.process import CoProcess, Process
from millstream.graph.operations.rank import Deduplicate, TopN, WindowRank
from millstream.graph.operations.rows import Filter, MapBatches, PythonMap, Select, Union, WithColumns
from millstream.graph.operations.rules import Patterns
from millstream.graph.operations.sample import Sample
from millstream.graph.operations.watermark import EventTime
from millstream.graph.operations.window import Window

_OURS: tuple[type[Operation], ...] = (
    *(Source, EventTime, Filter, Select, WithColumns, PythonMap, MapBatches, Union, KeyedAggregate, Reduce),
    *(Process, CoProcess, Join, WindowJoin, TemporalJoin, TopN, Deduplicate, WindowRank, Lookup, AsyncMap),
    *(Window, MatchPattern, Patterns, Sample, AsChangelog, AsRows, Normalize, Sink),
)
OPERATIONS: dict[str, type[Operation]] = {operation.kind: operation for operation in _OURS}


def operation_class(kind: object, *, step: str | None = None) -> type[Operation]:
    """The operation of a kind: a name of ours, that of an entry point, or a place `module:Class`.

    Raises:
        InvalidStep: nothing bears the name, it cannot be loaded, or it is no operation.
    """
    if not isinstance(kind, str) or not kind:
        raise _unknown(kind, step)
    if kind in OPERATIONS:
        return OPERATIONS[kind]
    try:
        named = registry.load_of_user(kind) if ":" in kind else registry.find("operations", kind)
    except KeyError:
        raise _unknown(kind, step) from None
    except (ImportError, AttributeError, ValueError) as problem:
        msg = f"the operation {kind!r} cannot be loaded"
        hint = "install the package that brings it, or name it as 'module:Class'"
        raise InvalidStep(msg, code="STEP-055", step=step, found=str(problem), hint=hint) from None
    return _checked(named, kind, step)


def is_findable(operation: type[Operation]) -> bool:
    """Whether another process comes by its kind to the same class."""
    try:
        return operation.__module__ != "__main__" and operation_class(operation.kind) is operation
    except InvalidStep:
        return False


def _checked(named: Any, kind: str, step: str | None) -> type[Operation]:
    if isinstance(named, type) and issubclass(named, Operation) and not inspect.isabstract(named):
        return named
    msg = f"{kind!r} is no operation"
    hint = "name a class that derives from millstream.graph.operation.Operation and says what it gives"
    raise InvalidStep(msg, code="STEP-056", step=step, found=repr(named), hint=hint)


def _unknown(kind: object, step: str | None) -> InvalidStep:
    known = dict.fromkeys((*OPERATIONS, *registry.names("operations")))
    msg = f"unknown kind of step {kind!r}"
    return InvalidStep(msg, code="STEP-051", step=step, known=known, hint="use a known kind")
