"""A look at a source before it runs: its columns, how the database would serve it, and its first rows."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

from millstream.connectors.jdbc.reading.decision import Decision, decide, too_slow
from millstream.connectors.jdbc.reading.fitting import fitted
from millstream.connectors.jdbc.reading.forms import schema_from
from millstream.connectors.jdbc.reading.opening import login_of, open_probe, open_rows, require_driver
from millstream.connectors.jdbc.reading.probe import Probe, StatementTimedOut
from millstream.connectors.jdbc.reading.relation import label_of
from millstream.connectors.jdbc.reading.rows import column_list
from millstream.connectors.jdbc.reading.statements import KeyStatements, Statement
from millstream.contract.source import BadRecord
from millstream.model.connector import Options
from millstream.model.schema import Schema
from millstream.model.time import now_ms
from millstream.records.codecs import batch_to_rows


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What a source would do."""

    schema: Schema
    key: tuple[str, ...]
    """The columns that order the rows; none where everything is read in one go."""
    rows_estimated: int | None
    plan: tuple[str, ...]
    """What the database says about reading one range."""
    rows: tuple[dict[str, Any], ...]
    bad: tuple[BadRecord, ...]
    """Those among the first rows that do not fit the schema."""


def found_schema(options: Options) -> Schema:
    """The schema of a query or table, as the database describes it."""
    with _asking(options, step=None) as probe:
        return schema_from(probe.columns(), step=None)


def preview(options: Options, schema: Schema, *, step: str, limit: int = 5) -> Preview:
    """Look at the first rows of a source, in the order of its key, and at the plan by which they are found.

    Raises:
        MillstreamError: whatever would refuse the source at its start.
    """
    require_driver(options, step=step)
    with _asking(options, step=step) as probe:
        try:
            decided = decide(probe, options, schema, step=step, now=now_ms())
            statement = _first_range(probe, decided, options)
            plan = probe.explain(statement)
        except StatementTimedOut as problem:
            raise too_slow(options, problem, step=step) from problem
    rows, bad = _first_rows(options, schema, decided, step=step, limit=limit)
    return Preview(
        schema=schema,
        key=tuple(column.name for column in decided.key),
        rows_estimated=decided.total,
        plan=tuple(plan),
        rows=tuple(rows),
        bad=tuple(bad),
    )


def look_at_rows(options: Options, schema: Schema, step: str) -> list[str]:
    """What a preview shows beside rows, for people."""
    seen = preview(options, schema, step=step, limit=1)
    order = f"read in ranges of {', '.join(seen.key)}" if seen.key else "read in one go: it has no key"
    rows = [] if seen.rows_estimated is None else [f"about {seen.rows_estimated:,} rows"]
    return [order, *rows, *(f"plan: {line}" for line in seen.plan)]


@contextlib.contextmanager
def _asking(options: Options, *, step: str | None) -> Iterator[Probe]:
    probe = open_probe(options, login_of(options, job="preview", step=step or label_of(options)))
    try:
        yield probe
    finally:
        probe.close()


def _first_range(probe: Probe, decided: Decision, options: Options) -> Statement:
    """The statement by which a range is read, or everything where there is no key."""
    statements = KeyStatements(dialect=probe.dialect, source=probe.source, key=decided.key)
    if not decided.key:
        return statements.select(["*"])
    upper = decided.upper
    high = None if upper is None else probe.fetch(statements.boundary(None, upper, options["chunk_rows"]))
    return statements.rows(["*"], None, probe.key_values(high[0]) if high else upper)


def _first_rows(
    options: Options, schema: Schema, decided: Decision, *, step: str, limit: int
) -> tuple[list[dict[str, Any]], list[BadRecord]]:
    rows = open_rows(options, login_of(options, job="preview", step=step), server=decided.server)
    statements = KeyStatements(dialect=rows.dialect, source=rows.source, key=decided.key)
    columns = column_list(rows, schema, decided.forms)
    found = statements.rows(columns, None, None) if decided.key else statements.select(columns)
    try:
        parts = list(fitted(rows.table(found + f" LIMIT {limit}", schema), schema, lambda _: label_of(options)))
    finally:
        rows.close()
    good = [row for part in parts if not isinstance(part, BadRecord) for row in batch_to_rows(part)]
    return good, [part for part in parts if isinstance(part, BadRecord)]
