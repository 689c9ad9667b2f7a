"""Reads the script of a `memory` source. A position is an index into it, with the scripted clock and watermark.

`ahead` in a position lists rows behind the index that were read before others, whose partitions had to wait.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import pyarrow as pa

from millstream.connectors.json_values import batches_from_json
from millstream.connectors.memory.spec import MARK
from millstream.contract.source import Advance, BadRecord, Position, SourceContext, Split
from millstream.errors import ExternalFailure
from millstream.model.connector import Options
from millstream.model.schema import Schema
from millstream.model.time import MIN_TIME
from millstream.records.codecs import batch_to_text, table_from_text

_aborted: set[str] = set()
"""Abort marks that have done their work in this process."""


class MemoryEnumerator:
    """Walks the script: an advance takes rows up to the next mark, or one mark."""

    def __init__(self, options: Options, context: SourceContext) -> None:
        self._context = context
        self._partition_by: str | None = options["partition_by"]
        ends = (index for index, row in enumerate(options["rows"]) if row.get(MARK) == "eof")
        self._script: list[dict[str, Any]] = options["rows"][: next(ends, None)]
        rows = [row for row in self._script if MARK not in row] if self._partition_by is not None else []
        self._partitions = tuple(dict.fromkeys(map(self._partition, rows)))
        self._rows_before = list(itertools.accumulate((MARK not in row for row in self._script), initial=0))

    def initial(self) -> Position:
        """The start; a script that moves the clock or the watermark sets both from its first epoch on."""
        kinds = {row.get(MARK) for row in self._script}
        position: dict[str, int] = {"at": 0}
        if "clock" in kinds:
            position["now"] = 0
        if "watermark" in kinds:
            position["watermark"] = MIN_TIME
        return position

    def advance(self, start: Position, credit: int) -> Advance:
        """Take one mark, or up to `credit` rows before the next mark."""
        return self.advance_without(start, credit, ())

    def advance_without(self, start: Position, credit: int, paused: Collection[str]) -> Advance:
        """The same without rows of some partitions, unless nothing else stands before the next mark or the end."""
        position = dict(start)
        if credit > 0 and start["at"] < len(self._script):
            mark = self._script[start["at"]]
            if MARK in mark:
                position["at"] += 1
                _apply(mark, position)
            else:
                _note(position, self._run(start, credit, paused) or self._run(start, credit, ()))
        return Advance(
            position=position,
            finished=position["at"] >= len(self._script),
            lag=self._rows_before[-1] - self._rows_before[position["at"]] - len(position.get("ahead", ())),
            watermark=position.get("watermark"),
            now=position.get("now"),
            partitions=self._partitions,
        )

    def _run(self, start: Position, credit: int, paused: Collection[str]) -> list[int]:
        """The next rows before a mark that were not read yet."""
        read = set(start.get("ahead", ()))
        places = itertools.takewhile(
            lambda place: MARK not in self._script[place], range(start["at"], len(self._script))
        )
        wanted = (p for p in places if p not in read and not (paused and self._partition(self._script[p]) in paused))
        return list(itertools.islice(wanted, credit))

    def splits(self, start: Position, end: Position) -> Sequence[Split]:
        """One split for each run of rows of one partition; an abort mark fails the first time it is met."""
        between = self._script[start["at"] : end["at"]]
        for row in between:
            if row.get(MARK) == "abort" and row["id"] not in _aborted:
                _aborted.add(row["id"])
                msg = f"abort mark {row['id']!r} reached"
                raise ExternalFailure(
                    msg, code="TEST-ABORT", step=self._context.step, hint="the script asks for it once"
                )
        read = set(start.get("ahead", ()))
        places = [*range(start["at"], end["at"]), *end.get("ahead", ())]
        rows = [self._script[place] for place in places if place not in read and MARK not in self._script[place]]
        return [self._split(name, list(group)) for name, group in itertools.groupby(rows, self._partition)]

    def _partition(self, row: dict[str, Any]) -> str:
        return "0" if self._partition_by is None else str(row.get(self._partition_by))

    def _split(self, partition: str, rows: list[dict[str, Any]]) -> Split:
        body = [_encoded(part) for part in batches_from_json(rows, self._context.schema)]
        return Split(partition, body, len(rows))

    def acknowledge(self, position: Position) -> None:
        """Nothing waits for it: the script stays."""

    def close(self) -> None:
        """Nothing is open."""


def _note(position: dict[str, Any], taken: list[int]) -> None:
    """Rows were read: the index moves to the first one that was not."""
    read = {*position.pop("ahead", ()), *taken}
    while position["at"] in read:
        read.discard(position["at"])
        position["at"] += 1
    if read:
        position["ahead"] = sorted(read)


def _apply(mark: dict[str, Any], position: dict[str, Any]) -> None:
    if mark[MARK] == "watermark":
        position["watermark"] = mark["at"]
    elif mark[MARK] == "clock":
        position["now"] += mark["advance"]


def _encoded(part: pa.RecordBatch | BadRecord) -> dict[str, str]:
    if isinstance(part, BadRecord):
        return {"raw": str(part.raw), "error": part.error}
    return {"rows": batch_to_text(part)}


class MemoryReader:
    """Decodes the rows a split carries."""

    def __init__(self, options: Options, schema: Schema) -> None:
        self._schema = schema.arrow

    def read(self, split: Any) -> Iterator[pa.RecordBatch | BadRecord]:
        """The rows and bad records of the split, in script order."""
        for part in split:
            if "rows" in part:
                yield from table_from_text(part["rows"]).cast(self._schema).to_batches()
            else:
                yield BadRecord(part["raw"], part["error"])

    def close(self) -> None:
        """Nothing is open."""


def decode_again(options: Options, schema: Schema, record: str | bytes, origin: str) -> pa.RecordBatch | BadRecord:
    """The row of a script that was bad: it stands in its letter as JSON."""
    del options, origin
    return next(batches_from_json([json.loads(record)], schema))
