"""Where rows come from and where they go: operations that name a connector."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from millstream.errors import InvalidStep
from millstream.graph.changes import AS_ROWS, IncomingChanges
from millstream.graph.function import FunctionRef
from millstream.graph.operation import Operation, Outputs, OverChanges, PlacedStep, ResolvedStep
from millstream.graph.outputs import OnError, column_of, with_dead
from millstream.graph.step import MAIN
from millstream.model.changelog import Changelog
from millstream.model.connector import (
    ConnectorSpec,
    Option,
    checked_options,
    named_params,
    sink_declaration,
    source_declaration,
)
from millstream.model.flow import FlowControl
from millstream.model.schema import Schema

_LONGEST = 60


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Source(Operation):
    """Rows from outside."""

    kind = "source"
    runs_as = "source"
    takes = "none"
    connector: ConnectorSpec
    schema: Schema
    on_error: OnError = "fail"
    credit: int | None = None
    """At most about that many rows per epoch; `None` shares the job's rows among its sources."""
    flow: FlowControl | None = None

    def __post_init__(self) -> None:
        if self.credit is not None and (type(self.credit) is not int or self.credit < 1):
            msg = "credit is not a whole number above zero"
            raise InvalidStep(msg, code="STEP-024", found=repr(self.credit), hint="correct credit=")

    def gives(self, step: PlacedStep, schemas: Sequence[Schema]) -> Outputs:
        """The rows as the author of the job declared them."""
        del schemas
        for name in self.flow.key if self.flow is not None else ():
            column_of(name, self.schema, step.id)
        declared = source_declaration(self.connector)
        if declared.check is not None and not self.open_params:
            declared.check(self.connector.options, self.schema, step.id)
        return (), with_dead({MAIN: self.schema}, self.on_error)

    def declared_changes(self, step: PlacedStep, schemas: Sequence[Schema]) -> Changelog | None:
        """As the connector says."""
        del step, schemas
        told = source_declaration(self.connector).changelog
        return None if told is None else told(self.connector.options, self.schema)

    @property
    def open_params(self) -> list[str]:
        """The parameters among its options that have no value yet."""
        return _named(self.connector, source_declaration(self.connector).options)

    def describe(self) -> str:
        """The connector."""
        return _connector_text(self.connector)

    @property
    def error_policy(self) -> str:
        """As given."""
        return self.on_error

    def stored(self, node: ResolvedStep) -> dict[str, Any]:
        """The connector, whose positions checkpoints hold."""
        del node
        return {"connector": self.connector.name}

    @classmethod
    def fields_from_json(cls, fields: dict[str, Any], step: str) -> dict[str, Any]:
        """The options are those that the connector declares."""
        if "connector" not in fields:
            return fields
        declared = source_declaration(fields["connector"], step=step).options
        return {**fields, "connector": _checked(fields["connector"], declared, step)}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LetterLimits:
    """How many rows of a step may become dead letters in one run."""

    max_rows: int | None = None
    max_ratio: float | None = None
    """Of the rows that came into the step, once there are a hundred."""

    def __post_init__(self) -> None:
        if self.max_rows is not None and (type(self.max_rows) is not int or self.max_rows < 0):
            msg = "max_rows of dead letters is not a whole number"
            raise InvalidStep(msg, code="STEP-062", found=repr(self.max_rows), hint="correct max_rows=")
        if self.max_ratio is not None and not (type(self.max_ratio) in (int, float) and 0 <= self.max_ratio <= 1):
            msg = "max_ratio of dead letters is not a share"
            raise InvalidStep(
                msg, code="STEP-062", found=repr(self.max_ratio), known="0 to 1", hint="correct max_ratio="
            )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sink(Operation):
    """Rows to outside."""

    kind = "sink"
    runs_as = "sink"
    connector: ConnectorSpec
    letters: LetterLimits | None = None
    """Of a sink of dead letters that are limited."""

    def gives(self, step: PlacedStep, schemas: Sequence[Schema]) -> Outputs:
        """Nothing: here rows leave."""
        declared = sink_declaration(self.connector)
        if declared.check is not None and not self.open_params:
            declared.check(self.connector.options, schemas[0], step.id)
        return (), {}

    def over_changes(self, changes: IncomingChanges) -> OverChanges:
        """The connector applies changes, or writes them down, with options that it learns here."""
        declared, options = sink_declaration(self.connector), self.connector.options
        if declared.takes_changes is None:
            msg = f"the sink {self.connector.name!r} adds rows, and these are changes of rows"
            raise changes.refused(msg, "CHANGE-008", found=changes.changelog.describe(), hint=AS_ROWS)
        if self.open_params:
            return self, None
        learned = declared.takes_changes(options, changes.changelog, changes.step)
        return dataclasses.replace(self, connector=ConnectorSpec(self.connector.name, {**options, **learned})), None

    @property
    def open_params(self) -> list[str]:
        """The parameters among its options that have no value yet."""
        return _named(self.connector, sink_declaration(self.connector).options)

    def describe(self) -> str:
        """The connector."""
        return _connector_text(self.connector)

    def stored(self, node: ResolvedStep) -> dict[str, Any]:
        """The connector, whose transactions manifests hold."""
        del node
        return {"connector": self.connector.name}

    @classmethod
    def fields_from_json(cls, fields: dict[str, Any], step: str) -> dict[str, Any]:
        """The options are those that the connector declares."""
        if "connector" not in fields:
            return fields
        declared = sink_declaration(fields["connector"], step=step).options
        return {**fields, "connector": _checked(fields["connector"], declared, step)}


def _checked(connector: ConnectorSpec, declared: dict[str, Option], step: str) -> ConnectorSpec:
    options = checked_options(declared, connector.options, step=step, name=connector.name)
    return ConnectorSpec(connector.name, options)


def _named(connector: ConnectorSpec, declared: dict[str, Option]) -> list[str]:
    return [name for names in named_params(declared, connector.options).values() for name in names]


def _connector_text(connector: ConnectorSpec) -> str:
    """A connector with its options, long values shortened."""
    shown = connector.shown.options
    options = ", ".join(f"{name}={_short(value)}" for name, value in shown.items() if value is not None)
    return f"{connector.name}({options})"


def _short(value: object) -> str:
    if isinstance(value, FunctionRef):
        return value.describe()
    text = repr(value)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
