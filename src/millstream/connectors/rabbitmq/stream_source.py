"""Stream queues as a source: the driver plans ranges of offsets, and workers read them."""

from __future__ import annotations

import dataclasses
import itertools
import logging
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from millstream.connectors.decided import decided_once
from millstream.connectors.messaging import patience
from millstream.connectors.messaging.patience import AwayPatience
from millstream.connectors.messaging.received import BrokerMessage, MessageRows
from millstream.connectors.rabbitmq.consuming import StreamConsumption
from millstream.connectors.rabbitmq.library import AbstractConnection
from millstream.connectors.rabbitmq.links import REFUSED, RabbitLink
from millstream.connectors.rabbitmq.stream_tail import StreamTail, first_offset
from millstream.contract.source import Advance, BadRecord, Credit, LostRows, Position, SourceContext, Split
from millstream.errors import ExternalFailure, StepFailed
from millstream.model.connector import Options
from millstream.model.schema import Schema
from millstream.model.time import now_ms

DATA_LOSS = "data_loss"
_SMALLEST_CUT = 2_000
_LOSS_SECONDS = 5.0
"""How often to look whether the first message is still there, while something waits."""
_SHORT_SECONDS = 5.0
"""For how long a queue must end before the position until it counts as another one."""
_PAUSE_SECONDS = 0.3
_TAKE_SECONDS = 1.0
_log = logging.getLogger(__name__)


class StreamQueueEnumerator:
    """Plans offsets. A position is the next one, and the frozen end of a bounded source."""

    def __init__(self, options: Options, context: SourceContext) -> None:
        self._options, self._context, self._queue = options, context, str(options["queue"])
        self._link = RabbitLink(options, step=context.step)
        self._tail = StreamTail(RabbitLink(options, step=context.step), self._queue)
        self._patience = AwayPatience(refused=REFUSED)
        self._initial: Position | None = None
        self._looked = 0.0
        self._short_since: float | None = None

    def initial(self) -> Position:
        """The offset that `start` meant when it was first asked, and that of `until`."""
        if self._initial is None:
            self._initial = decided_once(self._context.log_dir, "start", lambda: self._patience.patiently(self._begin))
        return self._initial

    def _begin(self) -> Position:
        return self._with_end({"at": self._meant(self._options["start"])})

    def next_run(self, position: Position) -> Position:
        """Another run begins behind the last, and has an end of its own."""
        if self._options["until"] is None:
            return position
        return decided_once(
            self._context.log_dir,
            f"start-{self._context.lineage}",
            lambda: self._patience.patiently(lambda: self._with_end({"at": position["at"]})),
        )

    def _with_end(self, position: dict[str, int]) -> Position:
        until = self._options["until"]
        return position if until is None else {**position, "until": self._meant(until)}

    def _meant(self, word: Any) -> int:
        match word:
            case "earliest":
                return first_offset(self._link, self._queue) or 0
            case "latest":
                return self._tail.settled_end()
            case {"time": instant}:
                found = first_offset(self._link, self._queue, instant)
                return self._tail.settled_end() if found is None else found
            case _:
                return int(word["number"])

    def advance(self, start: Position, credit: Credit) -> Advance:
        """As far as the credit goes. While the server is away nothing is read, and it is asked again."""
        try:
            end = self._tail.end()
            first = self._first_there(start["at"], end)
        except ExternalFailure as problem:
            return self._patience.waits(start, self._queue, problem, finished=_is_complete(start))
        self._patience.back()
        target = min(end, start.get("until", end))
        begin, dropped = start["at"], {}
        if begin <= end or _is_complete(start):
            self._short_since = None
        elif self._is_short_for_long():
            return self._other_stream(start, end)
        else:
            return dataclasses.replace(self._told(start, start, begin, {}), not_before=_soon(), drained=())
        if first > begin and not _is_complete(start):
            self._lost(f"messages of queue {self._queue!r} were deleted before they were read", begin, first)
            begin, dropped = (first, {DATA_LOSS: first - begin}) if credit > 0 else (begin, {})
        at = max(begin, min(begin + int(credit), target))
        return self._told(start, {**_plain(start), "at": at, **({"skip": begin} if dropped else {})}, target, dropped)

    def _first_there(self, at: int, end: int) -> int:
        """The first offset that is there, looked at now and then; nothing is lost while nothing waits."""
        if at >= end or time.monotonic() - self._looked < _LOSS_SECONDS:
            return 0
        found = first_offset(self._link, self._queue) or 0
        if found <= at:
            self._looked = time.monotonic()
        return found

    def _is_short_for_long(self) -> bool:
        """Whether the queue ends before the position, and did so for a while: its last messages come in several pieces."""
        now = time.monotonic()
        self._short_since = self._short_since or now
        return now - self._short_since >= _SHORT_SECONDS

    def _other_stream(self, start: Position, end: int) -> Advance:
        """The queue holds less than was read: it was made anew, and is read from its beginning, if that is accepted."""
        self._lost(f"the queue {self._queue!r} is not the one that was read", start["at"], end)
        begin = first_offset(self._link, self._queue) or 0
        anew = {"at": begin} if "until" not in start else {"at": begin, "until": begin}
        return self._told(start, anew, end, {})

    def _lost(self, msg: str, expected: int, found: int) -> None:
        told = f"offset {found} where {expected} is next"
        if self._options["on_data_loss"] != "skip":
            hint = "start from what is there with on_data_loss='skip', or keep messages longer next time"
            raise StepFailed(msg, code="RABBIT-013", step=self._context.step, found=told, hint=hint)
        _log.warning("step %r: %s (%s), which on_data_loss='skip' accepts", self._context.step, msg, told)

    def _told(self, start: Position, end: Position, target: int, dropped: dict[str, int]) -> Advance:
        waiting = max(0, target - end["at"])
        is_drained = not waiting and start["at"] == end["at"]
        return Advance(
            position=_plain(start) if start["at"] == end["at"] else end,
            finished=_is_complete(end),
            lag=waiting,
            lags={self._queue: waiting},
            partitions=(self._queue,),
            drained=(self._queue,) if is_drained else (),
            dropped=dropped,
        )

    def splits(self, start: Position, end: Position) -> Sequence[Split]:
        """Ranges of offsets; a long one is shared by several tasks."""
        first, last = max(start["at"], end.get("skip", 0)), end["at"]
        if first >= last:
            return []
        pieces = max(1, min(self._context.parallelism, (last - first) // _SMALLEST_CUT))
        cuts = [first + (last - first) * piece // pieces for piece in range(pieces + 1)]
        return [Split(self._queue, [low, high], high - low) for low, high in itertools.pairwise(cuts)]

    def acknowledge(self, position: Position) -> None:
        """Nobody has to be told: the queue keeps what its limits say."""

    def close(self) -> None:
        """Disconnect."""
        self._tail.close()
        self._link.close()


def _plain(position: Position) -> dict[str, Any]:
    """A position as the beginning of an epoch: what the one before it skipped is behind it."""
    return {name: value for name, value in position.items() if name != "skip"}


def _soon() -> int:
    return now_ms() + 200


def _is_complete(position: Position) -> bool:
    return "until" in position and position["at"] >= position["until"]


class StreamQueueReader:
    """Reads splits `[first offset, offset behind the last]`."""

    def __init__(self, options: Options, schema: Schema) -> None:
        self._options, self._queue = options, str(options["queue"])
        self._rows = MessageRows(options, schema, format=options["format"], metadata=options["metadata"])
        self._link = RabbitLink(options, step=self._queue)

    def read(self, split: Any) -> Iterator[pa.RecordBatch | BadRecord | LostRows]:
        """The rows of a range, in the order of offsets; it is read to its end, or fails."""
        first, end = split
        following, heard = first, time.monotonic()
        while following < end:
            try:
                for number, part in enumerate(self._pushed(following, end)):
                    heard = time.monotonic()
                    if number == 0 and part[0].number > following:
                        yield from self._gap(following, min(part[0].number, end))
                    following = part[-1].number + 1
                    yield from self._rows.decode([each for each in part if each.number < end], self._queue)
            except ExternalFailure as problem:
                if time.monotonic() - heard > patience.PATIENCE or problem.code == REFUSED:
                    raise
                time.sleep(_PAUSE_SECONDS)

    def _pushed(self, first: int, end: int) -> Iterator[list[BrokerMessage]]:
        doing = f"messages of queue {self._queue!r} cannot be read"
        consumption = StreamConsumption(self._queue, first)
        self._link.ask(consumption.open, doing)
        try:
            silent = time.monotonic() + patience.PATIENCE
            while first < end:
                part = self._link.ask(_taking(consumption), doing)
                if part:
                    first, silent = part[-1].number + 1, time.monotonic() + patience.PATIENCE
                    yield part
                elif time.monotonic() > silent:
                    hint = "see that the server answers, and that nobody has deleted the queue"
                    raise ExternalFailure(doing, code="RABBIT-002", step=self._queue, found="no message", hint=hint)
        finally:
            self._link.ask(consumption.close, doing)

    def _gap(self, first: int, end: int) -> Iterator[LostRows]:
        """Offsets without a message are usual; those before the first that is there hold messages that are gone."""
        there = min(first_offset(self._link, self._queue) or 0, end)
        if there <= first:
            return
        if self._options["on_data_loss"] != "skip":
            msg = f"messages of queue {self._queue!r} were deleted before they were read"
            hint = "keep messages longer, or accept it with on_data_loss='skip'"
            found = f"offsets {first} to {there - 1}"
            raise StepFailed(msg, code="RABBIT-013", step=self._queue, found=found, hint=hint)
        yield LostRows(there - first, DATA_LOSS)

    def close(self) -> None:
        """Disconnect."""
        self._link.close()


def _taking(consumption: StreamConsumption) -> Any:
    async def take(_: AbstractConnection) -> list[BrokerMessage]:
        return await consumption.take(_TAKE_SECONDS)

    return take
