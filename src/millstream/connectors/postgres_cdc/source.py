"""The driver's side: makes the slot, has the table copied, and decides how far each epoch reads the log.

What is asked of the server is asked in a thread, and nobody waits for it longer than a moment. `acknowledge` only remembers: the
slot is moved when the next epoch is decided, because the last published one may be read once more until then.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

from millstream.connectors.postgres_cdc.copying import TableCopying
from millstream.connectors.postgres_cdc.errand import Errand
from millstream.connectors.postgres_cdc.positions import (
    BEGIN,
    CdcPosition,
    WaitingChanges,
    end_of_epoch,
    lsn_text,
    position_of,
    stretch_between,
)
from millstream.connectors.postgres_cdc.preparation import check_slot, prepared
from millstream.connectors.postgres_cdc.publication import PublicationWatch
from millstream.connectors.postgres_cdc.reading import waiting_changes
from millstream.connectors.postgres_cdc.server import CdcServer, SlotStatus
from millstream.connectors.postgres_cdc.spec import table_schema
from millstream.connectors.postgres_cdc.table_copy import CopyFolder, TableCopy
from millstream.contract.source import Advance, Credit, Position, SourceContext, Split
from millstream.errors import CheckpointRefused
from millstream.model.connector import Options
from millstream.model.time import duration_ms, now_ms

_WAIT_SECONDS = 0.08
_RETRY_MS = 20
_SAMPLE = 1000
"""Messages by which the length of an epoch is judged."""
_LOOK_BYTES = 256 << 20
"""How much of the log is looked at in one go."""
_QUIET_BYTES = 16 << 20
"""So much of the log without a change moves the slot on, however short the time was: one file of the log."""
_LONG_SECONDS = 0.2
_REST = 3
"""A look that took long is not repeated before so many times that long: others need the server too."""
_CLOSING_SECONDS = 10.0


class Look(NamedTuple):
    """The slot, and what waits behind a position; nothing was counted where the log has not grown."""

    start: int
    status: SlotStatus
    waiting: WaitingChanges | None
    seconds: float


class CdcEnumerator:
    """Plans the copy, then the log."""

    def __init__(self, options: Options, context: SourceContext) -> None:
        self._options, self._context = options, context
        self._name = str(options["table"])
        self._server = CdcServer(options, step=context.step)
        self._folder = CopyFolder(context.log_dir, token=context.token)
        self._copying = TableCopying(self._server, self._folder, table_schema(options, context.schema))
        self._publication = PublicationWatch(self._server, options, context.log_dir, context.step)
        self._beginning: Errand[CdcPosition] | None = None
        self._looking: Errand[Look] | None = None
        self._looked: Look | None = None
        self._rests_until = 0.0
        self._moved_at = time.monotonic()
        self._acknowledged: CdcPosition | None = None

    def initial(self) -> Position:
        """Before everything: what is there to read is found out when it is asked for."""
        return BEGIN.to_json()

    def advance(self, start: Position, credit: Credit) -> Advance:
        """As far as the credit goes: rows of the copy, then whole transactions."""
        position = position_of(start)
        if position.phase != "stream":
            return self._advance_copy(position, credit)
        return self._advance_log(position, credit)

    # The copy.

    def _advance_copy(self, start: CdcPosition, credit: Credit) -> Advance:
        first = _behind(self._whole_copy()) if start.phase == "snapshot" else self._first_of_log()
        if first is None:
            return self._still(start, self._copying.doing)
        end, total = start, self._whole_copy().rows
        if credit > 0 and start.rows == total:
            return self._advance_log(first, credit, still=start)
        if credit > 0:
            rows = min(total, start.rows + credit)
            end = first if rows == total else CdcPosition(phase="snapshot", rows=rows)
        left = total - (total if end.phase == "stream" else end.rows)
        return Advance(position=end.to_json(), lag=left, lags={self._name: left}, partitions=[self._name], drained=())

    def _first_of_log(self) -> CdcPosition | None:
        """The position behind the copy, once that is whole."""
        copy = self._folder.copy()
        if copy is not None:
            return _behind(copy)
        if self._beginning is None:
            self._beginning = Errand(self._begin)
        if not self._beginning.is_done(_WAIT_SECONDS):
            return None
        done, self._beginning = self._beginning, None
        return done.fetched()

    def _whole_copy(self) -> TableCopy:
        copy = self._folder.copy()
        if copy is None:
            msg = "the copy of the table is not there, and a plan reads rows of it"
            hint = (
                "restore the folder of the source inside the checkpoint, or start with a new checkpoint and a new slot"
            )
            raise CheckpointRefused(msg, code="CDC-013", step=self._context.step, hint=hint)
        return copy

    def _begin(self) -> CdcPosition:
        declared = table_schema(self._options, self._context.schema)
        table = prepared(self._server, self._options, declared, self._context.log_dir, self._context.step)
        self._publication.check(table.oid)
        is_copied = self._options["start"] == "snapshot"
        return _behind(self._copying.copy(table) if is_copied else self._folder.begun_without(table.oid, table.lsn))

    # The log.

    def _advance_log(self, start: CdcPosition, credit: Credit, *, still: CdcPosition | None = None) -> Advance:
        """How far to read from there; while nothing is known the position is `still` the one that was asked for."""
        look = self._looked_behind(start, credit)
        if look is None:
            return self._still(still or start, None)
        end = self._end(start, look, credit) if credit > 0 else start
        if end != start:
            self._moved_at, self._looked = time.monotonic(), None
        return Advance(
            position=end.to_json(),
            partitions=[self._name],
            drained=[self._name] if end == start and _is_drained(look) else (),
            lag=0 if _is_drained(look) else None,
            lags={self._name: 0} if _is_drained(look) else {},
            retained={self._name: look.status.retained_bytes},
        )

    def _looked_behind(self, start: CdcPosition, credit: Credit) -> Look | None:
        """What is known of the log behind a position; `None` while that is being found out."""
        if self._looking is None:
            last = self._looked
            if last is not None and last.start == start.lsn and time.monotonic() < self._rests_until:
                return last  # what is published meanwhile, the slot learns with the next look
            self._looking = Errand(lambda: self._look(start, credit))
        if not self._looking.is_done(_WAIT_SECONDS):
            return None
        done, self._looking = self._looking, None
        look = self._looked = done.fetched()
        if look.seconds > _LONG_SECONDS:
            self._rests_until = time.monotonic() + look.seconds * _REST
        return look if look.start == start.lsn else self._looked_behind(start, credit)

    def _look(self, start: CdcPosition, credit: Credit) -> Look:
        """Move the slot to what is published, then count what waits behind it."""
        began, slot, last = time.monotonic(), self._options["slot"], self._looked
        status = self._server.status(slot)
        check_slot(status, self._options, self._context.step, start=start.lsn)
        published = min(self._published, start.lsn)
        if published > status.confirmed:
            self._server.advance(slot, published)
            self._remove_copy()
        if last is not None and last.start == start.lsn and last.status.flushed == status.flushed:
            return last._replace(status=status, seconds=0.0)
        upto = min(status.flushed, start.lsn + _LOOK_BYTES)
        waiting = None
        if upto > start.lsn:
            self._publication.check(start.oid)
            is_there = max(published, status.confirmed) == start.lsn
            most = max(1, min(credit, _SAMPLE)) if is_there else None
            waiting = waiting_changes(self._server, self._options, start.lsn, upto, most)
        return Look(start.lsn, status, waiting, time.monotonic() - began)

    @property
    def _published(self) -> int:
        at = self._acknowledged
        return at.lsn if at is not None and at.phase == "stream" else 0

    def _remove_copy(self) -> None:
        if self._context.log_dir is not None:
            self._folder.remove_files()

    def _end(self, start: CdcPosition, look: Look, credit: Credit) -> CdcPosition:
        waiting = look.waiting
        if waiting is None:
            return start
        if waiting.changes:
            return start.read_to(end_of_epoch(start.lsn, waiting, credit, credit.bytes))
        # Nothing of the table: without a move now and then the server would keep its log for ever.
        is_long = waiting.upto - start.lsn >= _QUIET_BYTES
        is_due = time.monotonic() - self._moved_at >= duration_ms(self._options["idle"]) / 1000
        return start.read_to(waiting.upto, is_quiet=True) if is_long or is_due else start

    def _still(self, start: CdcPosition, why: str | None) -> Advance:
        """The server has not answered yet."""
        return Advance(
            position=start.to_json(),
            not_before=now_ms() + _RETRY_MS,
            partitions=[self._name],
            drained=(),
            blocked={} if why is None else {self._name: why},
        )

    def splits(self, start: Position, end: Position) -> Sequence[Split]:
        """Stretches of the files of the copy, then one of the log: a slot serves one reader."""
        begin, stop = position_of(start), position_of(end)
        made: list[Split] = []
        if begin.phase != "stream":
            copy = self._whole_copy()
            last = copy.rows if stop.phase == "stream" else stop.rows
            made += [self._copied(copy, *each) for each in copy.stretches(begin.rows, last)]
            begin = _behind(copy)
        stretch = stretch_between(begin, stop) if stop.phase == "stream" else None
        return [*made, *([] if stretch is None else [Split(self._name, {"log": stretch.to_json()})])]

    def _copied(self, copy: TableCopy, name: str, first: int, end: int) -> Split:
        body = [str(self._folder.path / name), first, end, lsn_text(copy.lsn), copy.taken_at]
        return Split(self._name, {"copy": body}, rows=end - first)

    def acknowledge(self, position: Position) -> None:
        """Remember what is published."""
        self._acknowledged = position_of(position)

    def close(self) -> None:
        """End what is under way, and let go of the server. The slot stays: without it changes would be lost."""
        self._server.cancel()
        for errand in (self._beginning, self._looking):
            if errand is not None:
                errand.is_done(_CLOSING_SECONDS)
        self._server.close()
        self._folder.close()


def _behind(copy: TableCopy) -> CdcPosition:
    return CdcPosition(phase="stream", lsn=copy.lsn, oid=copy.oid, seen=copy.seen).read_to(copy.lsn)


def _is_drained(look: Look) -> bool:
    waiting = look.waiting
    return waiting is None or (waiting.changes == 0 and waiting.upto == look.status.flushed)
