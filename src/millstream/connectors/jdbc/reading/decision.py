"""What a source decides when it first starts: how columns are read, what its key is made of, and where it ends."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from millstream.connectors.jdbc.database import first_lines
from millstream.connectors.jdbc.reading.forms import Forms, SourceColumn, forms_of
from millstream.connectors.jdbc.reading.keys import Key, KeyColumn, KeyValues
from millstream.connectors.jdbc.reading.probe import Probe, StatementTimedOut
from millstream.connectors.jdbc.reading.relation import label_of
from millstream.connectors.jdbc.reading.statements import KeyStatements
from millstream.errors import ExternalFailure, InvalidStep
from millstream.model.connector import Options
from millstream.model.schema import Schema


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What holds from the first start of a source on."""

    key: Key
    """Empty where the rows are read in one go."""
    forms: Forms
    server: str
    upper: KeyValues | None
    """The highest key of the time it was decided; `None` without rows, and for a source without an end."""
    total: int | None
    """About how many rows there were, where that is known."""
    width: int
    """About how many bytes a row has."""
    at: int
    """When it was decided, in milliseconds since 1970."""

    def to_json(self) -> dict[str, Any]:
        """As it is stored."""
        return {**dataclasses.asdict(self), "key": [column.to_json() for column in self.key]}

    @staticmethod
    def from_json(value: dict[str, Any]) -> Decision:
        """Read `to_json`."""
        return Decision(**{**value, "key": tuple(KeyColumn.from_json(column) for column in value["key"])})


def decide(probe: Probe, options: Options, schema: Schema, *, step: str, now: int) -> Decision:
    """Look at the database once; what cannot be read is refused before anything is.

    Raises:
        InvalidStep: (JDBC-033) no key where one is needed; (JDBC-034) a null in the key.
        InvalidSchema: as `forms_of` says.
    """
    try:
        columns = probe.columns()
        forms = forms_of(columns, schema, probe.form, step=step)
        key = probe.key(_key_columns(probe, options, columns, step=step))
        statements = KeyStatements(dialect=probe.dialect, source=probe.source, key=key)
        if key:
            refuse_nulls(probe, statements, options, step=step)
        upper = None if options["incremental"] or not key else highest(probe, statements, None)
        total = _total(probe, statements, options, upper)
        width = max(8 * len(schema), probe.width(schema.names))
    except StatementTimedOut as problem:
        raise too_slow(options, problem, step=step) from problem
    return Decision(key=key, forms=forms, server=probe.server, upper=upper, total=total, width=width, at=now)


def key_names(probe: Probe, options: Options, *, step: str) -> list[str]:
    """The columns that order the rows; none where they are read in one go."""
    first = [options["incremental"]] if options["incremental"] else []
    given = options["key"]
    if given is None and options["table"] is not None:
        given = probe.primary_key()
        if not given and not first:
            msg = f"table {options['table']!r} has no primary key"
            hint = "pass key=[...] with columns that order its rows, or key=[] to read it in one go under at_least_once"
            raise InvalidStep(msg, code="JDBC-033", step=step, hint=hint)
    return [*first, *(name for name in given or () if name not in first)]


def _key_columns(probe: Probe, options: Options, columns: Sequence[SourceColumn], *, step: str) -> list[SourceColumn]:
    there = {column.name: column for column in columns}
    names = key_names(probe, options, step=step)
    if unknown := [name for name in names if name not in there]:
        msg = f"key {unknown[0]!r} is not a column of {label_of(options)}"
        raise InvalidStep(msg, code="JDBC-033", step=step, known=list(there), hint="correct key= or incremental=")
    return [there[name] for name in names]


def refuse_nulls(probe: Probe, statements: KeyStatements, options: Options, *, step: str) -> None:
    """A row whose key has a null lies in no range: unless it is asked for, say so instead of losing it."""
    nullable = [column.name for column in statements.key if column.nullable]
    if options["nulls"] == "read" or not nullable or not probe.fetch(statements.has_null()):
        return
    msg = f"{label_of(options)} has rows with a null in the key ({', '.join(nullable)})"
    hint = (
        "choose another key, leave such rows out in a query, or pass nulls='read' to read them in a piece of their own"
    )
    raise InvalidStep(msg, code="JDBC-034", step=step, hint=hint)


def highest(probe: Probe, statements: KeyStatements, after: KeyValues | None) -> KeyValues | None:
    """The highest key behind another; `None` where nothing is."""
    rows = probe.fetch(statements.last(after))
    return probe.key_values(rows[0]) if rows else None


def _total(probe: Probe, statements: KeyStatements, options: Options, upper: KeyValues | None) -> int | None:
    if options["count"] == "exact":
        ((counted,),) = probe.fetch(statements.count(None, upper))
        return int(counted)
    return probe.estimate() if options["count"] == "estimate" else None


def too_slow(options: Options, problem: StatementTimedOut, *, step: str) -> ExternalFailure:
    """The error for a statement that ran into its time-out and cannot be made smaller."""
    msg = f"a statement of {label_of(options)} ran longer than timeout={options['timeout']!r} allows"
    hint = "pass a longer timeout=, or give the database an index on the key"
    return ExternalFailure(msg, code="JDBC-036", step=step, found=first_lines(problem), hint=hint)
