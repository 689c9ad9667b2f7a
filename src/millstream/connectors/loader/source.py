"""The `loader` source. For functions that give the same rows again the driver walks ahead, and the workers read.

A position is where the function stands, and the path by which the epoch before came there: its splits. So the splits of an
epoch are the same whoever asks for them, and whenever.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any

import pyarrow as pa

from millstream.connectors.loader.calls import acknowledged, batches_of, loaded_behind, number_of, number_told
from millstream.connectors.loader.chained import ChainedDigest, digest_of_part
from millstream.connectors.loader.context import LoaderContext
from millstream.connectors.loader.promise import PromisedReading, admitted, path_of
from millstream.connectors.loader.received import ReceivedEnumerator, logged_rows
from millstream.connectors.loader.walk import Walk, WalkMark
from millstream.contract.source import Advance, BadRecord, Position, SourceContext, Split, SplitEnumerator
from millstream.graph.function import FunctionRef
from millstream.model.connector import Options
from millstream.model.schema import Schema
from millstream.model.time import duration_ms

_PARTITION = "0"


def open_loader(options: Options, context: SourceContext) -> SplitEnumerator:
    """The enumerator for what the function promises."""
    return WalkingEnumerator(options, context) if options["replayable"] else ReceivedEnumerator(options, context)


class WalkingEnumerator:
    """Walks the function, or the one that only looks positions up, and hands out what lies between them."""

    def __init__(self, options: Options, context: SourceContext, *, clock: Callable[[], float] = time.time) -> None:
        self._function: FunctionRef = options["function"]
        self._positions: FunctionRef | None = options["positions"]
        self._acknowledge: FunctionRef | None = options["acknowledge"]
        self._is_checked: bool = options["check"]
        self._poll = None if options["poll"] is None else duration_ms(options["poll"])
        self._first: Any = options["start"]
        self._schema, self._parallelism, self._clock = context.schema, context.parallelism, clock
        self._context = LoaderContext(step=context.step, columns=context.schema.names)
        self._walk: Walk | None = None

    def initial(self) -> Position:
        """Where the user says that it begins."""
        return {"at": self._first, "path": []}

    def advance(self, start: Position, credit: int) -> Advance:
        """As many whole pages as the credit allows, and at least one."""
        walk = self._walk_behind(start["at"])
        try:
            walked = walk.behind()
        except Exception:
            # Whoever asks again wants it to be tried again.
            self._close_walk()
            raise
        taken = admitted(walked.marks, credit)
        is_end = walked.is_ended and len(taken) == len(walked.marks)
        rest = sum(mark.rows for mark in walked.marks[len(taken) :])
        if not taken:
            return self._standing(start, walk, rest, is_end=is_end)
        position = {"at": taken[-1].position, "path": path_of(start["at"], taken, self._parallelism)}
        return Advance(
            position=position,
            finished=is_end and self._poll is None,
            lag=rest,
            partitions=(_PARTITION,),
            drained=(),
        )

    def _standing(self, start: Position, walk: Walk, rest: int, *, is_end: bool) -> Advance:
        """Nothing is read now."""
        again = 0
        if is_end and self._poll is not None:
            passed = (time.monotonic() - walk.ended_at) * 1000
            if passed >= self._poll:
                self._close_walk()
            else:
                again = int(self._clock() * 1000 + self._poll - passed)
        return Advance(
            position=start,
            finished=is_end and self._poll is None,
            not_before=again,
            lag=rest,
            partitions=(_PARTITION,),
            drained=(_PARTITION,) if is_end else (),
        )

    def _walk_behind(self, position: Any) -> Walk:
        if self._walk is None or not self._walk.leads_to(position):
            self._close_walk()
            self._walk = Walk(position, lambda: self._marks(position))
        return self._walk

    def _marks(self, start: Any) -> Generator[WalkMark]:
        """What the function, or the one that only looks positions up, comes to."""
        if self._is_checked:
            for page in loaded_behind(self._function, start, self._context):
                digest = ChainedDigest()
                for part in batches_of(self._function, page, self._schema, self._context):
                    digest = digest.then(digest_of_part(part))
                yield WalkMark(position=page.position, rows=digest.rows, digest=digest)
        elif self._positions is not None:
            for page in loaded_behind(self._positions, start, self._context):
                told = number_told(self._positions, page, self._context)
                yield WalkMark(position=page.position, rows=told, is_counted=False)
        else:
            for page in loaded_behind(self._function, start, self._context):
                yield WalkMark(position=page.position, rows=number_of(self._function, page, self._context))

    def splits(self, start: Position, end: Position) -> Sequence[Split]:
        """The path that the end remembers; over several epochs, one split."""
        path = end["path"]
        if start["at"] == end["at"]:
            return []
        if not path or path[0]["from"] != start["at"]:
            path = [{"from": start["at"], "to": end["at"], "rows": 0, "promised": None}]
        return [Split(_PARTITION, {**part, "step": self._context.step}, part["rows"]) for part in path]

    def acknowledge(self, position: Position) -> None:
        """Tell the user's function what is published, if there is one."""
        if self._acknowledge is not None and position["at"] != self._first:
            acknowledged(self._acknowledge, position["at"], self._context)

    def close(self) -> None:
        """End the walk."""
        self._close_walk()

    def _close_walk(self) -> None:
        if self._walk is not None:
            self._walk.close()
            self._walk = None


class LoaderReader:
    """Calls the function again, from the start of a split to its end; or reads what the driver has logged of it."""

    def __init__(self, options: Options, schema: Schema) -> None:
        self._function: FunctionRef = options["function"]
        self._schema = schema

    def read(self, split: Any) -> Iterator[pa.RecordBatch | BadRecord]:
        """The rows between two positions; what is not as planned is refused."""
        return logged_rows(split) if "folder" in split else self._called(split)

    def _called(self, split: Any) -> Iterator[pa.RecordBatch | BadRecord]:
        context = LoaderContext(step=split["step"], columns=self._schema.names, end=split["to"])
        reading = PromisedReading(self._function, split)
        for page in loaded_behind(self._function, split["from"], context):
            for part in batches_of(self._function, page, self._schema, context):
                reading.take(part)
                yield part
            if page.position == split["to"]:
                reading.finish()
                return
        raise reading.did_not_arrive()

    def close(self) -> None:
        """Nothing is open: each call of the function ends with its split."""
