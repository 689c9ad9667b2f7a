"""Evictors as values: which of a window's rows a firing sees. How they are evaluated stands in the runtime."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

import pyarrow as pa

from millstream.errors import InvalidStep
from millstream.graph.function import FunctionRef, function_ref
from millstream.graph.windows.window import duration_text
from millstream.model.schema import Schema

EvictorKind = Literal["count", "time", "delta", "custom"]
When = Literal["before", "after"]
KINDS: tuple[EvictorKind, ...] = ("count", "time", "delta", "custom")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class EvictorSpec:
    """What a firing leaves out, or what is left out of the firings behind it."""

    kind: EvictorKind
    rows: int = 0
    keep: int = 0
    column: str | None = None
    threshold: float = 0.0
    function: FunctionRef | None = None
    when: When = "before"

    def __post_init__(self) -> None:
        is_known = self.kind in KINDS and self.when in {"before", "after"}
        _require(is_known, "unknown kind of evictor", f"{self.kind!r}, {self.when!r}", "use one of ms.evictor")
        if self.kind == "count":
            is_number = type(self.rows) is int and self.rows > 0
            _require(
                is_number, "a count evictor keeps a number of rows above zero", repr(self.rows), "as in count(100)"
            )
        if self.kind == "time":
            _require(
                self.keep > 0, "a time evictor keeps rows for a time above zero", f"{self.keep} ms", "as in time('5s')"
            )
        if self.kind == "delta":
            is_whole = (self.column is None) != (self.function is None) and self.threshold > 0
            given = f"column={self.column!r}, threshold={self.threshold!r}"
            _require(
                is_whole, "a delta evictor takes a column or function, and a threshold above zero", given, "give both"
            )
        if self.kind == "custom":
            _require(self.function is not None, "an evictor of your own needs a function", "nothing", "give a function")

    @property
    def functions(self) -> tuple[FunctionRef, ...]:
        """User code in it."""
        return () if self.function is None else (self.function,)

    def check(self, schema: Schema, step: str) -> None:
        """The column of a delta evictor is one of the input, and a number."""
        if self.column is None:
            return
        known = [field.name for field in schema if _is_number(field.type)]
        if self.column not in known:
            msg = "a delta evictor needs a column of numbers"
            raise InvalidStep(
                msg, code="STEP-128", step=step, found=self.column, known=known, hint="name one, or give a function"
            )

    def describe(self) -> str:
        """The evictor in a few words."""
        match self.kind:
            case "count":
                text = f"the last {self.rows} rows"
            case "time":
                text = f"the last {duration_text(self.keep)}"
            case "delta":
                of = self.column or "function"
                text = f"{of} within {self.threshold:g} of the last row"
            case _:
                assert self.function is not None, "an evictor of the user has a function"
                text = self.function.name.split("@", maxsplit=1)[0]
        return text if self.when == "before" else f"{text}, after each firing"


def evictor_from_json(value: Any, *, step: str | None = None) -> EvictorSpec:
    """Read an evictor back; unknown fields and ill-typed values are refused."""
    known = [field.name for field in dataclasses.fields(EvictorSpec)]
    if not isinstance(value, Mapping) or "kind" not in value or not set(known).issuperset(value):
        raise _unreadable(value, known, step)
    fields = {name: content for name, content in value.items() if content is not None}
    if any(type(fields.get(name, 0)) is not int for name in ("rows", "keep")):
        raise _unreadable(value, known, step)
    if type(fields.get("threshold", 0.0)) not in {int, float}:
        raise _unreadable(value, known, step)
    if "function" in fields:
        fields["function"] = function_ref(str(fields["function"]), step=step)
    return EvictorSpec(**fields)


def _unreadable(value: Any, known: list[str], step: str | None) -> InvalidStep:
    msg = "not the JSON form of an evictor"
    return InvalidStep(msg, code="STEP-125", step=step, found=repr(value)[:200], known=known, hint="use known fields")


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _require(holds: bool, message: str, given: str, hint: str) -> None:  # noqa: FBT001
    if not holds:
        raise InvalidStep(message, code="STEP-127", found=given, hint=hint)
