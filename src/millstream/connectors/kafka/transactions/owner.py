"""An owner of the sink: its producer, its mark, and what it may still change.

The broker fences by "who opened the id last wins", which a late starter with an old token does too. So whoever opens an id reads
the mark before it believes that the sink is its own, and whoever is fenced opens the id again before it gives up: tokens decide.
"""

from __future__ import annotations

import dataclasses
import random
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from millstream.connectors.kafka.clients import PATIENCE
from millstream.connectors.kafka.outgoing.sending import MessageSender
from millstream.connectors.kafka.target import remember_marks
from millstream.connectors.kafka.transactions.mark_topic import MarksRead, MarkTopic
from millstream.connectors.kafka.transactions.marks import Mark, Record, transactional_id
from millstream.connectors.kafka.transactions.producer import ProducerLost, TransactionalProducer
from millstream.contract.sink import SinkContext
from millstream.errors import Fenced

_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 2.0
_SETTLE_SECONDS = 2.0


def _nothing(_: MessageSender) -> None:
    pass


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MarkedChange:
    """What one transaction changes."""

    mark: Mark
    """The owner's own from then on."""
    closures: tuple[Record, ...] = ()
    """Other lineages that are closed."""
    fill: Callable[[MessageSender], None] = _nothing
    """Sends messages."""


class SinkOwner:
    """Changes the sink in transactions of its lineage, each of which bears its mark."""

    def __init__(
        self, config: Mapping[str, Any], topic: MarkTopic, context: SinkContext, *, prefix: str, timeout_ms: int
    ) -> None:
        self._config, self._topic, self._context, self._prefix = config, topic, context, prefix
        self._timeout_ms = timeout_ms
        self._producer: TransactionalProducer | None = None
        self._mark = Mark(lineage=context.lineage)

    def change(self, decide: Callable[[Mark], MarkedChange | None]) -> None:
        """Do what `decide` makes of this lineage's mark, in one transaction; nothing where it makes nothing of it.

        A producer that was lost is replaced, and `decide` asked again with the mark as it is then: so it learns whether the
        lost transaction was committed.

        Raises:
            Fenced: a higher token was seen, or the lineage is closed.
        """
        for pause in self._attempts():
            try:
                producer = self._opened()
                change = decide(self._mark)
                if change is not None:
                    self._run(producer, change)
            except ProducerLost as lost:
                self.close()
                pause(lost)
            else:
                return

    def touch(self) -> None:
        """Show that this owner is not replaced, and leave its token for those that come later."""
        self.change(lambda mark: MarkedChange(mark=mark.owned(self._context.token)))

    def marks(self, *, may_abort: bool) -> Mapping[str, Mark]:
        """The marks of all lineages.

        Args:
            may_abort: whether transactions that stay open are aborted; else what they hide is left out.
        """
        return self._settled(bool, may_abort=may_abort).marks

    def expel(self, lineages: Collection[str]) -> None:
        """Abort what owners of other lineages have begun; those that live look at their marks before they go on."""
        for lineage in lineages:
            for pause in self._attempts():
                producer = self._producer_of(lineage)
                try:
                    producer.init()
                except ProducerLost as lost:
                    pause(lost)
                else:
                    break
                finally:
                    producer.close()

    def close(self) -> None:
        """Give the producer up."""
        if self._producer is not None:
            self._producer.close()
            self._producer = None

    def _opened(self) -> TransactionalProducer:
        """The producer, opened if need be; then the mark says whether this owner may use it."""
        if self._producer is None:
            remember_marks(self._context, self._topic.name, self._topic.made())
            self._producer = self._producer_of(self._context.lineage)
            try:
                self._producer.init()
                self._mark = self._own_mark()
            except BaseException:
                self.close()
                raise
        return self._producer

    def _own_mark(self) -> Mark:
        own = self._context.lineage
        read = self._settled(lambda undecided: own in undecided, may_abort=True)
        mark = read.marks.get(own, Mark(lineage=own))
        if mark.is_closed or mark.token > self._context.token:
            raise fenced(mark, self._context)
        return mark

    def _run(self, producer: TransactionalProducer, change: MarkedChange) -> None:
        def fill(sender: MessageSender) -> None:
            change.fill(sender)
            for record in (*change.closures, change.mark.message()):
                sender.put(self._topic.name, record.key, record.encoded())

        try:
            producer.run(fill, heartbeat=self._context.heartbeat)
        except BaseException:
            self.close()
            raise
        self._mark = change.mark
        if producer.is_spent:
            self.close()

    def _producer_of(self, lineage: str) -> TransactionalProducer:
        named = transactional_id(self._prefix, self._context.job, self._context.step, lineage)
        return TransactionalProducer(self._config, named, timeout_ms=self._timeout_ms, step=self._context.step)

    def _settled(self, is_hidden: Callable[[frozenset[str]], bool], *, may_abort: bool) -> MarksRead:
        """The marks, once no open transaction hides any of those wanted.

        Transactions are open for the time of a commit, unless their owner stands still or is gone: those are aborted.
        """
        until = time.monotonic() + _SETTLE_SECONDS
        while is_hidden((read := self._topic.read()).undecided):
            if time.monotonic() > until:
                if not may_abort:
                    break
                self.expel(sorted(read.writers - {self._context.lineage}))
            self._context.heartbeat()
            time.sleep(_FIRST_PAUSE)
        return read

    def _attempts(self) -> Iterator[Callable[[ProducerLost], None]]:
        """Attempts until patience ends, which begins with the first failure."""
        until, seconds = None, _FIRST_PAUSE

        def pause(lost: ProducerLost) -> None:
            nonlocal until, seconds
            self._context.heartbeat()
            until = until or time.monotonic() + PATIENCE
            if time.monotonic() + seconds > until:
                raise lost.failure(step=self._context.step) from None
            # Of owners that fence each other in turn, chance lets one be first.
            time.sleep(seconds * random.uniform(0.5, 1.5))
            seconds = min(seconds * 2, _LONGEST_PAUSE)

        while True:
            yield pause


def fenced(mark: Mark, context: SinkContext) -> Fenced:
    """The error of an owner that another one has replaced."""
    msg = "another owner took over this sink; nothing more is published"
    known = "a lineage that was succeeded by another" if mark.is_closed else f"token {mark.token}"
    hint = "let the newer run go on; this one ends"
    return Fenced(msg, step=context.step, found=f"token {context.token}", known=known, hint=hint)
