"""The driver's side of a NATS source: where it begins, how far each epoch reads, and what is lost."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Sequence
from typing import Any

from millstream.connectors.decided import decided_once
from millstream.connectors.messaging.patience import AwayPatience
from millstream.connectors.nats.links import REFUSED, link_to
from millstream.connectors.nats.positions import NatsPosition, advanced, read_position, splits_between
from millstream.connectors.nats.streams import StreamFacts, StreamQuestions
from millstream.contract.source import Advance, Credit, Position, SourceContext, Split
from millstream.errors import ExternalFailure, StepFailed
from millstream.model.connector import Options

DATA_LOSS = "data_loss"
_RESTORE = "start from what is there with on_data_loss='skip', or restore the stream; keep messages longer next time"
_log = logging.getLogger(__name__)


class NatsEnumerator:
    """Plans ranges of sequences. No consumer of the server decides what a job reads."""

    def __init__(self, options: Options, context: SourceContext) -> None:
        self._options, self._context = options, context
        self._stream: str = options["stream"]
        self._subjects: Sequence[str] = options["subjects"]
        self._questions = StreamQuestions(
            link_to(options, step=context.step), self._stream, self._subjects, step=context.step
        )
        self._patience = AwayPatience(refused=REFUSED)
        self._initial: Position | None = None

    # Where it begins.

    def initial(self) -> Position:
        """The sequence that `start` meant when it was first asked, and that of `until`."""
        if self._initial is None:
            self._initial = decided_once(
                self._context.log_dir, "start", lambda: self._patience.patiently(self._begin).to_json()
            )
        return self._initial

    def next_run(self, position: Position) -> Position:
        """Another run begins behind the last, and has an end of its own."""
        if self._options["until"] is None:
            return position

        def decide() -> Position:
            facts = self._patience.patiently(self._questions.facts)
            until = self._meant(self._options["until"], facts)
            return dataclasses.replace(read_position(position), until=until, skip=0).to_json()

        return decided_once(self._context.log_dir, f"start-{self._context.lineage}", decide)

    def _begin(self) -> NatsPosition:
        facts = self._questions.facts()
        until = None if self._options["until"] is None else self._meant(self._options["until"], facts)
        at = self._meant(self._options["start"], facts)
        if at > facts.end:
            msg = f"start= lies behind the end of the stream {self._stream!r}"
            hint = "correct start=, pass start='latest', or begin at the end with on_data_loss='skip'"
            self._lost(msg, f"start={at}, and the next message is {facts.end}", hint)
            at = facts.end
        return NatsPosition(created=facts.created, at=at, until=until)

    def _meant(self, word: Any, facts: StreamFacts) -> int:
        match word:
            case "earliest":
                return facts.first
            case "latest":
                return facts.end
            case {"time": instant}:
                return max(facts.first, self._questions.since(instant))
            case _:
                return max(1, int(word["number"]))

    # How far an epoch reads.

    def advance(self, start: Position, credit: Credit) -> Advance:
        """As far as the credit goes. While the server is away nothing is read, and it is asked again."""
        position = dataclasses.replace(read_position(start), skip=0)
        try:
            found = self._planned(position, credit)
        except ExternalFailure as problem:
            return self._patience.waits(start, self._stream, problem, finished=position.is_complete)
        self._patience.back()
        return found

    def _planned(self, position: NatsPosition, credit: Credit) -> Advance:
        facts = self._questions.facts()
        if facts.created != position.created or position.at > facts.end:
            return self._other_stream(position, facts)
        begin, dropped = position.at, {}
        if position.at < facts.first and not position.is_complete:
            found = f"sequences {position.at} to {facts.first - 1}"
            self._lost(f"messages of stream {self._stream!r} were deleted before they were read", found)
            if credit > 0:
                begin, dropped = facts.first, {DATA_LOSS: facts.first - position.at}
                position = dataclasses.replace(position, skip=facts.first)
        end = advanced(position, facts, self._wanted(begin, position.target(facts)), credit)
        return self._told(position, end, facts, dropped)

    def _wanted(self, begin: int, target: int) -> int:
        """Where to begin: with a filter, at the next message that passes it, or at the end where none does."""
        if not self._subjects or begin >= target:
            return begin
        following = self._questions.next_wanted(begin)
        return target if following is None else min(following, target)

    def _other_stream(self, position: NatsPosition, facts: StreamFacts) -> Advance:
        """The stream was made anew, or holds less than was read: it is read from its beginning, if that is accepted."""
        is_shorter = facts.created == position.created
        found = f"its end is {facts.end}, behind {position.at}" if is_shorter else f"created at {facts.created}"
        self._lost(f"the stream {self._stream!r} is not the one that was read", found)
        begin = facts.end if is_shorter else facts.first
        until = None if position.until is None else begin
        anew = NatsPosition(created=facts.created, at=begin, until=until)
        return self._told(position, anew, facts, {})

    def _lost(self, msg: str, found: str, hint: str = _RESTORE) -> None:
        if self._options["on_data_loss"] != "skip":
            raise StepFailed(msg, code="NATS-013", step=self._context.step, found=found, hint=hint)
        _log.warning("step %r: %s (%s), which on_data_loss='skip' accepts", self._context.step, msg, found)

    def _told(self, start: NatsPosition, end: NatsPosition, facts: StreamFacts, dropped: dict[str, int]) -> Advance:
        waiting = max(0, end.target(facts) - end.at)
        is_drained = not waiting and start.at == end.at
        return Advance(
            position=end.to_json(),
            finished=end.is_complete,
            lag=waiting,
            lags={self._stream: waiting},
            partitions=(self._stream,),
            drained=(self._stream,) if is_drained else (),
            dropped=dropped,
        )

    def splits(self, start: Position, end: Position) -> Sequence[Split]:
        """Ranges of sequences; a long one is shared by several tasks."""
        return splits_between(self._stream, read_position(start), read_position(end), self._context.parallelism)

    def acknowledge(self, position: Position) -> None:
        """Nobody has to be told: the stream keeps what its limits say."""

    def close(self) -> None:
        """The connection stays for others of this process."""
