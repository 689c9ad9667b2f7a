"""Streams of changes: what declares one, takes it for rows again, and makes its rows whole."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Literal

from millstream.errors import InvalidStep
from millstream.graph.changes import IncomingChanges, declared
from millstream.graph.operation import Operation, Outputs, OverChanges, PlacedStep, ResolvedStep
from millstream.graph.step import MAIN
from millstream.model.changelog import Changelog
from millstream.model.schema import Schema

Images = Literal["after", "both"]
"""Whether an update is the new row alone, or the row that goes and the one that comes."""
IMAGES: tuple[Images, ...] = ("after", "both")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AsChangelog(Operation):
    """Rows that are changes, because the author of the job says so; what happened is checked row by row."""

    kind = "as_changelog"
    runs_as = "batch"
    op: str
    keys: tuple[str, ...] = ()
    images: Images = "after"

    def __post_init__(self) -> None:
        if self.images not in IMAGES:
            msg = "unknown images of a changelog"
            raise InvalidStep(msg, code="CHANGE-007", found=repr(self.images), known=IMAGES, hint="correct images=")

    def gives(self, step: PlacedStep, schemas: Sequence[Schema]) -> Outputs:
        """The columns that come in."""
        del step
        return (), {MAIN: schemas[0]}

    def declared_changes(self, step: PlacedStep, schemas: Sequence[Schema]) -> Changelog:
        """As given."""
        return declared(self.op, self.keys, schemas[0], step.id, is_whole=self.images == "both")

    def over_changes(self, changes: IncomingChanges) -> OverChanges:
        """What a source or another step said of them counts no more, but for what it cannot know."""
        came = changes.changelog
        if came.op != self.op or came.is_whole != (self.images == "both"):
            msg = "a changelog of one form cannot be declared another one"
            hint = "declare the keys alone; .normalize() makes rows whole, .as_rows() takes each change for a row"
            raise changes.refused(msg, "CHANGE-007", found=came.describe(), hint=hint)
        return self, declared(self.op, self.keys, changes.schemas[0], changes.step, is_whole=came.is_whole)

    def describe(self) -> str:
        """The column that says what happened, and the key."""
        return Changelog(op=self.op, keys=self.keys, is_whole=self.images == "both").describe()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AsRows(Operation):
    """Changes that shall count as rows, each for itself."""

    kind = "as_rows"
    runs_as = "batch"

    def gives(self, step: PlacedStep, schemas: Sequence[Schema]) -> Outputs:
        """The columns that come in."""
        del step
        return (), {MAIN: schemas[0]}

    def over_changes(self, changes: IncomingChanges) -> OverChanges:
        """They are changes no more."""
        del changes
        return self, None

    def describe(self) -> str:
        """The same for every such step."""
        return "each change is a row"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Normalize(Operation):
    """Keeps the last row of each key, so that changes by key become rows that come and go whole."""

    kind = "normalize"
    runs_as = "keyed"

    def gives(self, step: PlacedStep, schemas: Sequence[Schema]) -> Outputs:
        """The columns that come in."""
        del step
        return (), {MAIN: schemas[0]}

    def over_changes(self, changes: IncomingChanges) -> OverChanges:
        """By the key of the changes alone do the changes of a row meet, in their order."""
        came = changes.changelog
        if came.is_whole or set(changes.keys) != set(came.keys):
            msg = "normalize takes changes by key, partitioned by that key"
            hint = "call .normalize() on the stream itself; rows that come and go whole do not need it"
            raise changes.refused(msg, "CHANGE-007", found=came.describe(), known=changes.keys, hint=hint)
        return self, dataclasses.replace(came, is_whole=True)

    def describe(self) -> str:
        """The same for every such step."""
        return "the last row of each key goes when another comes"

    def stored(self, node: ResolvedStep) -> dict[str, Any]:
        """The rows themselves, whose columns are those that it gives."""
        del node
        return {}
