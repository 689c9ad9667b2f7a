"""Steps over streams of changes: what may become of the column that says what happened, and what a step refuses otherwise."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from millstream.errors import InvalidStep
from millstream.graph.expressions.expression import Expression
from millstream.model.changelog import KIND_TYPE, Changelog
from millstream.model.ids import StepId
from millstream.model.schema import Schema

AS_ROWS = "call .as_rows() before it, if each change shall count as a row of its own"
MAKE_WHOLE = "call .normalize() before it, or have whole rows sent: images='both'"


class IncomingChanges(NamedTuple):
    """The streams that a step reads, of which at least one is a changelog."""

    step: StepId
    kind: str
    came: tuple[Changelog | None, ...]
    schemas: tuple[Schema, ...]
    keys: tuple[str, ...]
    """The columns by which rows change subtask, if by any."""

    @property
    def changelog(self) -> Changelog:
        """The first of them."""
        return next(each for each in self.came if each is not None)

    def refused(self, problem: str, code: str, *, hint: str, found: object = None, known: object = None) -> InvalidStep:
        """The error of a step that cannot take the changes."""
        return InvalidStep(problem, code=code, step=self.step, found=found, known=known, hint=hint)


def no_changes(changes: IncomingChanges, *, hint: str = f"aggregate the changes first, or {AS_ROWS}") -> InvalidStep:
    """The error of a step that would take changes for rows."""
    msg = f"{changes.kind} takes rows, and these are changes of rows: it would take updates and deletes for new ones"
    return changes.refused(msg, "CHANGE-001", found=changes.changelog.describe(), hint=hint)


def need_whole(changes: IncomingChanges, why: str) -> None:
    """Refuse changes that come by key: nothing tells what the row was before."""
    if not changes.changelog.is_whole:
        msg = f"{changes.kind} needs rows that come and go whole: {why}"
        raise changes.refused(msg, "CHANGE-004", found=changes.changelog.describe(), hint=MAKE_WHOLE)


def refuse_reading(changes: IncomingChanges, expressions: Iterable[Expression]) -> None:
    """Refuse expressions over the column that says what happened: a row would not go as it came."""
    op = changes.changelog.op
    for expression in expressions:
        if op in expression.columns:
            msg = f"{changes.kind} computes with {op!r}, which says what became of a row"
            raise changes.refused(msg, "CHANGE-003", found=expression.text, hint=AS_ROWS)


def filtered(changes: IncomingChanges, where: Expression) -> Changelog:
    """The changes that a condition leaves. It must hold of a row that goes as it held when the row came."""
    refuse_reading(changes, (where,))
    changelog = changes.changelog
    if not set(where.columns) <= set(changelog.keys):
        need_whole(changes, "a delete by key has no other columns, and would not pass the condition")
    return changelog


def projected(changes: IncomingChanges, columns: Sequence[tuple[str, Expression]]) -> Changelog:
    """The changes behind a projection, which must hand on what happened, and the key of rows that go by it."""
    changelog, schema = changes.changelog, changes.schemas[0]
    names: dict[str, str] = {}
    for name, expression in columns:
        if expression.text.strip("`") in schema and len(expression.columns) == 1:
            names.setdefault(expression.columns[0], name)
    if changelog.op not in names:
        raise _dropped(changes, changelog.op)
    refuse_reading(changes, (each for name, each in columns if name != names[changelog.op]))
    lost = [key for key in changelog.keys if key not in names]
    if lost and not changelog.is_whole:
        raise _dropped(changes, lost[0])
    keys = () if lost else tuple(names[key] for key in changelog.keys)
    return Changelog(op=names[changelog.op], keys=keys, is_whole=changelog.is_whole)


def made_by_function(changes: IncomingChanges, schema: Schema) -> Changelog:
    """The changes that a function makes of changes. It hands on what happened; that it does is checked row by row."""
    changelog = changes.changelog
    for name in kept_columns(changelog):
        if name not in schema or schema[name].type != changes.schemas[0][name].type:
            raise _dropped(changes, name)
    # Nobody knows what a function makes of the columns by which whole rows are told apart.
    return Changelog(op=changelog.op, keys=() if changelog.is_whole else changelog.keys, is_whole=changelog.is_whole)


def kept_columns(changelog: Changelog) -> tuple[str, ...]:
    """The columns that no function may change."""
    return (changelog.op,) if changelog.is_whole else (changelog.op, *changelog.keys)


def declared(op: str, keys: Sequence[str], schema: Schema, step: str, *, is_whole: bool) -> Changelog:
    """A changelog as the author of a job declares it."""
    for name in (op, *keys):
        if name not in schema:
            msg = f"a changelog with the column {name!r}, which the rows do not have"
            raise InvalidStep(msg, code="CHANGE-007", step=step, known=schema.names, hint="correct op= or keys=")
    if schema[op].type != KIND_TYPE or op in keys:
        msg = f"column {op!r} cannot say what became of rows"
        known = "a string column that is no key, with insert, update, delete or read"
        raise InvalidStep(
            msg, code="CHANGE-007", step=step, found=schema[op].type_name, known=known, hint="correct op="
        )
    if not keys and not is_whole:
        msg = "a changelog by key without keys"
        hint = "pass keys=[...] with the columns that identify a row, or images='both' if rows come and go whole"
        raise InvalidStep(msg, code="CHANGE-007", step=step, hint=hint)
    return Changelog(op=op, keys=tuple(keys), is_whole=is_whole)


def _dropped(changes: IncomingChanges, column: str) -> InvalidStep:
    what = "what became of a row" if column == changes.changelog.op else "which row it was"
    msg = f"{changes.kind} does not hand on {column!r}, which says {what}"
    hint = f"keep the column {column!r} as it is, or {AS_ROWS}"
    return changes.refused(msg, "CHANGE-002", found=changes.changelog.describe(), hint=hint)
