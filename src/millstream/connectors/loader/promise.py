"""What a load function promises by giving the same rows again: how its way is cut, and whether a reading keeps to it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

import pyarrow as pa

from millstream.connectors.loader.chained import ChainedDigest, digest_of_part
from millstream.connectors.loader.walk import WalkMark
from millstream.contract.source import BadRecord
from millstream.errors import StepFailed
from millstream.graph.function import FunctionRef


class Countable(Protocol):
    """A page of which the number of rows is known."""

    @property
    def rows(self) -> int:
        """How many."""
        ...


P = TypeVar("P", bound=Countable)


def admitted(pages: Sequence[P], credit: int) -> Sequence[P]:
    """The first pages that a number of rows allows: at least one, unless it is none."""
    if credit <= 0:
        return ()
    totals = itertools.accumulate(page.rows for page in pages)
    fitting = sum(1 for _ in itertools.takewhile(lambda total: total <= credit, totals))
    return pages[: max(1, fitting)]


def shares(pages: Sequence[P], parts: int) -> list[list[P]]:
    """Pages in their order, in at most that many parts of about equally many rows."""
    share = max(1, -(-sum(page.rows for page in pages) // parts))
    made: list[list[P]] = []
    some: list[P] = []
    for place, page in enumerate(pages, 1):
        some.append(page)
        if place == len(pages) or (sum(each.rows for each in some) >= share and len(made) < parts - 1):
            made.append(some)
            some = []
    return made


def path_of(start: Any, marks: Sequence[WalkMark], parts: int) -> list[dict[str, Any]]:
    """The way from a position over marks, in at most that many parts."""
    path: list[dict[str, Any]] = []
    for some in shares(marks, parts):
        path.append(_part(start, some))
        start = some[-1].position
    return path


def _part(start: Any, marks: Sequence[WalkMark]) -> dict[str, Any]:
    part = {"from": start, "to": marks[-1].position, "rows": sum(mark.rows for mark in marks)}
    if not marks[0].is_counted:
        return {**part, "promised": None}
    whole = ChainedDigest()
    for mark in marks:
        whole = whole.then(mark.digest or ChainedDigest(mark.rows))
    return {**part, "promised": whole.text()}


class PromisedReading:
    """One reading of a split, compared with what its plan says."""

    def __init__(self, function: FunctionRef, split: Any) -> None:
        self._function, self._split = function, split
        self._digest = ChainedDigest()
        self._is_compared = split["promised"] is not None and ":" in split["promised"]

    def take(self, part: pa.RecordBatch | BadRecord) -> None:
        """Take in rows that were read."""
        if self._is_compared:
            self._digest = self._digest.then(digest_of_part(part))
        else:
            self._digest = self._digest.then(ChainedDigest(1 if isinstance(part, BadRecord) else part.num_rows))

    def finish(self) -> None:
        """The end is reached: the rows must be those of the plan."""
        if self._split["promised"] not in {None, self._digest.text()}:
            what = "gave other rows than the first time"
            raise self._broken(what, f"{self._digest.rows} rows")

    def did_not_arrive(self) -> StepFailed:
        """The error for a function that ends before it comes to the position of the plan."""
        return self._broken("did not come to the position at which it was the first time", "its end")

    def _broken(self, what: str, found: str) -> StepFailed:
        split = self._split
        msg = f"the load function {self._function.describe()} promised replayable=True and {what}"
        known = f"{split['rows']} rows from {split['from']!r} to {split['to']!r}"
        hint = "stop at ctx.end where a page may have grown meanwhile; and let the same position give the same rows"
        return StepFailed(msg, code="LOADER-006", step=split["step"], found=found, known=known, hint=hint)
