"""Streams whose rows say what became of the rows of a table: which column says it, and what the other columns hold then."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from millstream.errors import InvalidStep
from millstream.model.schema import Field

KIND_TYPE = pa.string()
"""The type of the column that says what happened; its values are those of `ChangeKind`."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Changelog:
    """What is known of a stream of changes.

    It has one of two forms. Where rows are *whole*, each comes as an insert and goes as a delete, with all its columns: an update
    is a delete and an insert. Otherwise rows go *by key*: a row replaces the one with its key, and a delete holds the key alone.
    """

    op: str
    """The column that says what happened."""
    keys: tuple[str, ...] = ()
    """The columns that identify a row; none where nothing is known to."""
    is_whole: bool = False

    @property
    def field(self) -> Field:
        """The column that says what happened."""
        return Field(self.op, KIND_TYPE, nullable=False)

    def describe(self) -> str:
        """For plans: which form it has, and by which columns."""
        keys = f" by {', '.join(self.keys)}" if self.keys else ""
        return f"changes in {self.op!r}{keys}, " + (
            "rows come and go whole" if self.is_whole else "the newest row counts"
        )


def written_as_log(options: Mapping[str, Any], changelog: Changelog, step: str) -> Mapping[str, Any]:
    """For sinks that keep every row: they hold the changes themselves, in order."""
    del options, changelog, step
    return {}


def check_applied_by(changelog: Changelog, keys: Sequence[str], step: str, *, option: str) -> None:
    """Refuse to apply changes to rows that are told apart by other columns than theirs.

    Raises:
        InvalidStep: (CHANGE-008) a change would touch another row than the one that changed.
    """
    known, given = set(changelog.keys), set(keys)
    if known and (known == given or (changelog.is_whole and known < given)):
        return
    if not known:
        msg = "nothing says which columns identify the rows that change: a step before the sink has left them out or made them"
        images = ", images='both'" if changelog.is_whole else ""
        hint = f"say it before the sink: .as_rows().as_changelog(keys=[...], op={changelog.op!r}{images})"
    else:
        msg = f"rows that change are identified by other columns than {option}= says"
        hint = f"pass {option}={list(changelog.keys)!r}"
    raise InvalidStep(msg, code="CHANGE-008", step=step, found=list(keys), known=list(changelog.keys), hint=hint)
