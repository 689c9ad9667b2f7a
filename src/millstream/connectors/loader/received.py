"""The `loader` source for functions that cannot be asked for the same again: the driver calls once, and logs what it gets.

A position is where the function stands and a place in the intake log. An entry holds the rows of one page and the position behind
them, so the function is never asked again for what is durable.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from millstream.connectors.intake.files import ORIGIN, LoggedEntry, place_of
from millstream.connectors.intake.intake import Intake
from millstream.connectors.intake.log import ReceivedEntry
from millstream.connectors.intake.reading import parts_of, read_parts
from millstream.connectors.loader.calls import acknowledged, batches_of, loaded_behind
from millstream.connectors.loader.context import LoaderContext
from millstream.connectors.loader.promise import admitted, shares
from millstream.contract.source import Advance, BadRecord, Credit, Position, SourceContext, Split
from millstream.errors import ExternalFailure
from millstream.graph.function import FunctionRef
from millstream.model.connector import Options
from millstream.model.schema import Schema
from millstream.model.time import duration_ms, now_ms
from millstream.records.codecs import batch_to_ipc, table_from_ipc

_PARTITION = "0"


class ReceivedEnumerator:
    """Admits pages that are durable in the log. Receiving begins with the first epoch and goes on until it is closed."""

    def __init__(self, options: Options, context: SourceContext) -> None:
        self._acknowledge: FunctionRef | None = options["acknowledge"]
        self._first, self._poll = options["start"], options["poll"]
        self._context = context
        self._told = LoaderContext(step=context.step, columns=context.schema.names)
        self._own_folder = None if context.log_dir is not None else tempfile.mkdtemp(prefix="millstream-loader-")
        self._folder = Path(self._own_folder or context.log_dir or "").absolute()
        # What was not acknowledged comes again from outside: taken from the log as well, it would come twice.
        takes_rest = self._acknowledge is None
        self._intake = Intake(self._folder, context.token, ahead_bytes=options["ahead_bytes"], takes_rest=takes_rest)
        self._function: FunctionRef = options["function"]
        self._receiver: PageReceiver | None = None

    def initial(self) -> Position:
        """Where the user says that it begins."""
        return self._position(self._first, list(ORIGIN), is_ended=False)

    def _position(self, at: Any, log: Sequence[Any], *, is_ended: bool) -> Position:
        return {"at": at, "log": list(log), "run": self._context.lineage, "ended": is_ended}

    def advance(self, start: Position, credit: Credit) -> Advance:
        """As many whole pages as the credit allows, and at least one."""
        if self._is_ended(start):
            return Advance(position=start, finished=True, lag=0, partitions=(_PARTITION,), drained=(_PARTITION,))
        receiver = self._receiving(start)
        waiting = self._intake.after(place_of(start["log"]))
        taken = admitted(waiting, credit)
        if not waiting:
            self._intake.raise_failure()
        is_ended = len(taken) > 0 and taken[-1].note["ended"]
        is_resting = not waiting and receiver.resting_until > 0
        last = taken[-1] if taken else None
        return Advance(
            position=start if last is None else self._position(last.note["at"], last.place, is_ended=is_ended),
            finished=is_ended,
            not_before=receiver.resting_until if is_resting else 0,
            lag=sum(entry.rows for entry in waiting[len(taken) :]),
            ahead=self._intake.ahead(taken),
            partitions=(_PARTITION,),
            drained=(_PARTITION,) if is_resting else (),
        )

    def _is_ended(self, position: Position) -> bool:
        """Whether the function had come to its end; a further run calls it again."""
        return bool(position["ended"]) and position["run"] == self._context.lineage

    def _receiving(self, start: Position) -> PageReceiver:
        if self._receiver is None:
            poll = None if self._poll is None else duration_ms(self._poll)
            self._receiver = PageReceiver(self._function, start["at"], self._context.schema, self._told, poll)
            self._intake.begin(place_of(start["log"]), self._receiver)
        return self._receiver

    def splits(self, start: Position, end: Position) -> Sequence[Split]:
        """Pages between two places of the log, in as many pieces as there are tasks."""
        entries = self._intake.between(place_of(start["log"]), place_of(end["log"]))
        pieces = shares([entry for entry in entries if entry.rows], self._context.parallelism)
        return [self._split(piece) for piece in pieces]

    def _split(self, entries: Sequence[LoggedEntry]) -> Split:
        body = {"folder": str(self._folder), "parts": parts_of(entries)}
        return Split(_PARTITION, body, sum(entry.rows for entry in entries))

    def acknowledge(self, position: Position) -> None:
        """Tell the user's function what is published, if there is one, and make room in the log."""
        if self._acknowledge is not None and position["at"] != self._first:
            acknowledged(self._acknowledge, position["at"], self._told)
        self._intake.acknowledge(place_of(position["log"]))

    def close(self) -> None:
        """End the receiving."""
        self._intake.close()
        if self._own_folder is not None:
            shutil.rmtree(self._own_folder, ignore_errors=True)


class PageReceiver:
    """Calls the function in a thread, and again where it ended or the outside was away."""

    def __init__(
        self, function: FunctionRef, start: Any, schema: Schema, context: LoaderContext, poll: int | None
    ) -> None:
        self._function, self._at, self._schema, self._context, self._poll = function, start, schema, context, poll
        self.resting_until = 0
        """Milliseconds since 1970: when the function is called again; 0 while it is under way."""

    def run(self, intake: Intake, waiting: Sequence[LoggedEntry]) -> None:
        """Go on behind what lies in the log already."""
        if waiting:
            self._at = waiting[-1].note["at"]
        if waiting and waiting[-1].note["ended"]:
            return
        while not intake.is_closed:
            try:
                if not self._receive(intake) or not self._is_next(intake):
                    return
            except ExternalFailure as problem:
                intake.fail(problem)

    def _receive(self, intake: Intake) -> bool:
        """One call of the function; whether it came to its end."""
        for page in loaded_behind(self._function, self._at, self._context):
            parts = list(batches_of(self._function, page, self._schema, self._context))
            intake.put(_entry(parts, page.position, self._schema))
            self._at = page.position
            if not intake.wait_for_room():
                return False
        return True

    def _is_next(self, intake: Intake) -> bool:
        """Wait for the next call; where there is none, the log says so."""
        if self._poll is None:
            intake.put(ReceivedEntry(b"", 0, {"at": self._at, "ended": True}))
            return False
        self.resting_until = now_ms() + self._poll
        is_open = intake.wait(self._poll / 1000)
        self.resting_until = 0
        return is_open

    def stop(self) -> None:
        """The function is left with its next page; one that does not come back is left to itself."""


def _entry(parts: Sequence[pa.RecordBatch | BadRecord], position: Any, schema: Schema) -> ReceivedEntry:
    good = [part for part in parts if not isinstance(part, BadRecord)]
    bad = [[_loggable(part.raw), _loggable(part.error), part.origin] for part in parts if isinstance(part, BadRecord)]
    table = pa.Table.from_batches(good, schema.arrow)
    body = msgspec.msgpack.encode([batch_to_ipc(table), bad])
    return ReceivedEntry(body, table.num_rows + len(bad), {"at": position, "ended": False})


def _loggable(text: str | bytes) -> str | bytes:
    """Text of a bad record as a log holds it: half of a pair of surrogates, which has no bytes, is written out."""
    return text if isinstance(text, bytes) else text.encode("utf-8", "backslashreplace").decode("utf-8")


def logged_rows(split: Any) -> Iterator[pa.RecordBatch | BadRecord]:
    """The rows of pages in the log, in a worker."""
    for entry, body in read_parts(Path(split["folder"]), split["parts"]):
        if entry.rows:
            rows, bad = msgspec.msgpack.decode(body)
            yield from table_from_ipc(rows).to_batches()
            yield from (BadRecord(*each) for each in bad)
