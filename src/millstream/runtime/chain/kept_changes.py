"""Changes on their way through functions of the user: what happened to a row must come out as it went in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from millstream.errors import StepFailed
from millstream.graph.changes import kept_columns
from millstream.model.change import ChangeKind
from millstream.model.changelog import Changelog
from millstream.runtime.chain.made_rows import as_mapping

_WHOLE = (ChangeKind.INSERT, ChangeKind.DELETE, ChangeKind.READ)


def check_kinds(step: str, rows: pa.RecordBatch, changelog: Changelog) -> None:
    """Refuse rows that do not say what happened, or say what cannot happen in a changelog of that form.

    Raises:
        StepFailed: (CHANGE-010) names the first such row.
    """
    known = [kind.value for kind in (_WHOLE if changelog.is_whole else ChangeKind)]
    is_known = pc.is_in(rows.column(changelog.op), value_set=pa.array(known))
    place = pc.index(is_known, pa.scalar(value=False)).as_py()
    if place >= 0:
        msg = f"column {changelog.op!r} of a change holds what is no change"
        found = f"{rows.column(changelog.op)[place].as_py()!r} in {rows.slice(place, 1).to_pylist()[0]}"
        hint = "mend the rows before .as_changelog()"
        if changelog.is_whole:
            hint += "; where rows come and go whole, an update is a delete and an insert"
        raise StepFailed(msg, code="CHANGE-010", step=step, found=found, known=known, hint=hint)


def check_batch(step: str, came: pa.RecordBatch, made: pa.RecordBatch, changelog: Changelog) -> None:
    """Refuse a batch in which a function changed what happened."""
    for name in kept_columns(changelog):
        if not made.column(name).equals(came.column(name)):
            raise _changed(step, name, "a batch", "another column")


def keeping_changes(
    function: Callable[[Any], Any], shape: str, changelog: Changelog, step: str
) -> Callable[[Any], Any]:
    """A function of the user that ends the run where it changes what happened; one that only chooses rows cannot."""
    names = kept_columns(changelog)

    def of_row(row: Any) -> Any:
        came = [row[name] for name in names]
        made = function(row)
        _check(step, names, came, made)
        return made

    def of_rows(row: Any) -> Any:
        came = [row[name] for name in names]
        made = list(function(row) or ())
        for each in made:
            _check(step, names, came, each)
        return made

    return {"map": of_row, "flat_map": of_rows}.get(shape, function)


def _check(step: str, names: tuple[str, ...], came: list[Any], made: Any) -> None:
    row = as_mapping(made)
    for name, value in zip(names, came, strict=True):
        if row.get(name) != value:
            raise _changed(step, name, repr(value), repr(row.get(name)))


def _changed(step: str, name: str, came: str, made: str) -> StepFailed:
    msg = f"the function changed {name!r}, which tells what became of which row"
    hint = f"hand on {name!r} as it is, or call .as_rows() before the step"
    return StepFailed(msg, code="CHANGE-011", step=step, found=made, known=came, hint=hint)
