"""Reads ranges of offsets, with consumers that stay open in a worker process between splits and epochs.

A consumer that has read a partition up to somewhere has fetched beyond it. The next epoch most often goes on right there, so
what it holds is kept, and it is taken again for that partition and offset before any other.
"""

from __future__ import annotations

import atexit
import json
import os
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from millstream.connectors.kafka.client_options import client_config
from millstream.connectors.kafka.clients import (
    PATIENCE,
    ClientErrors,
    error_of,
    failure,
    leave_to_parent,
    open_consumer,
)
from millstream.connectors.kafka.library import Consumer, KafkaError, KafkaException, Message, TopicPartition
from millstream.connectors.kafka.positions import KafkaPartition
from millstream.errors import MillstreamError
from millstream.model.connector import Options

_PARKED = 8
_POLL_SECONDS = 0.02
"""`consume` waits as long as it is asked to, unless it gets as many messages as it is asked for."""
_TUNING = {
    "fetch.wait.max.ms": 50,
    # A full queue is looked at again after a second unless told otherwise; readers that empty it meanwhile would stand still.
    "fetch.queue.backoff.ms": 10,
    # What a consumer has fetched ahead is lost when the next epoch reads its partition in another process, and every consumer
    # of every process holds as much: with four times this, readers of a backlog took twice the memory and a third more CPU.
    "queued.min.messages": 50_000,
    "queued.max.messages.kbytes": 8_192,
    "max.partition.fetch.bytes": 1 << 20,
    "enable.partition.eof": True,
}


class Gone(NamedTuple):
    """Records that were deleted between the plan and the reading."""

    first: int
    end: int


class PartitionReader:
    """A consumer on one partition, with messages it has got beyond what was asked for."""

    def __init__(self, options: Options, config: Mapping[str, Any], *, step: str) -> None:
        self._errors = ClientErrors()
        isolation = {"isolation.level": options["isolation"]}
        self._consumer: Consumer = open_consumer({**_TUNING, **config, **isolation}, step=step, errors=self._errors)
        self._most = options["poll_messages"]
        self._step = step
        self._held: list[Message] = []
        self.place: KafkaPartition | None = None
        self.next = -1
        """The offset that it would read next."""

    def seek(self, place: KafkaPartition, offset: int) -> None:
        """Stand before an offset; what is held already is not fetched again."""
        if (self.place, self.next) != (place, offset):
            self._held, self.place, self.next = [], place, offset
            self._consumer.assign([TopicPartition(place.topic, place.partition, offset)])

    def messages(self, end: int) -> Iterator[list[Message] | Gone]:
        """The messages before an offset, in order, in lists. Offsets without a message, such as ends of transactions, pass."""
        heard, stood = time.monotonic(), self.next
        while self.next < end:
            got = self._held or self._consumer.consume(min(self._most, end - self.next), timeout=_POLL_SECONDS)
            self._held = []
            if self.next > stood:
                heard, stood = time.monotonic(), self.next
            elif time.monotonic() - heard > PATIENCE:
                raise self._failure(KafkaError(KafkaError._TIMED_OUT, f"no answer for {PATIENCE:.0f} s"))
            taken = self._taken(got, end)
            if isinstance(taken, Gone) or taken:
                yield taken

    def _taken(self, got: list[Message], end: int) -> list[Message] | Gone:
        """What belongs to the range. The rest is held; an end of the partition moves on over what holds no message."""
        last = got[-1] if got else None
        if last is not None and not _has_error(got) and _offset(last) < end:
            self.next = _offset(last) + 1
            return got
        taken: list[Message] = []
        for index, message in enumerate(got):
            error = message.error()
            if error is not None and error.code() == KafkaError._PARTITION_EOF:
                self.next = max(self.next, _offset(message))
            elif error is not None and error.code() == KafkaError._AUTO_OFFSET_RESET:
                self._held = got[index + 1 :]
                return self._gone(end)
            elif error is not None:
                raise self._failure(error)
            elif _offset(message) >= end:
                self._held, self.next = got[index:], end
                break
            else:
                self.next = _offset(message) + 1
                taken.append(message)
        return taken

    def _gone(self, end: int) -> list[Message] | Gone:
        """What is missing at the next offset: what lies before the first, or all that is asked for behind the last."""
        assert self.place is not None
        partition = TopicPartition(self.place.topic, self.place.partition)
        try:
            low, high = self._consumer.get_watermark_offsets(partition, timeout=PATIENCE)
        except KafkaException as problem:
            raise self._failure(error_of(problem)) from None
        first, place, self.place = self.next, self.place, None
        if first > high:
            # There is nothing to go on from: a consumer that stood there would be refused again and again.
            self.next = end
            return Gone(first, end)
        self.seek(place, max(low, first))
        return Gone(first, min(low, end)) if low > first else []

    def _failure(self, error: KafkaError) -> MillstreamError:
        self.next = -1
        return failure(
            f"records of {self.place.name if self.place else '?'} cannot be read", error, self._errors, step=self._step
        )

    def leave_to_parent(self) -> None:
        """This process is a child of the one that opened it."""
        leave_to_parent(self._consumer)

    def close(self) -> None:
        """Disconnect."""
        self._consumer.close()


def _offset(message: Message) -> int:
    offset = message.offset()
    assert offset is not None, "what comes from a broker has an offset"
    return offset


def _has_error(messages: list[Message]) -> bool:
    return any(message.error() is not None for message in messages)


_parked: list[tuple[str, PartitionReader]] = []
_lock = threading.Lock()


def take(options: Options, place: KafkaPartition, offset: int, *, step: str) -> PartitionReader:
    """A reader that stands before an offset: best the one that has just come there, else any of the same settings."""
    config = client_config(options, step=step)
    kind = _kind(options, config)
    with _lock:
        fitting = [entry for entry in _parked if entry[0] == kind]
        there = [entry for entry in fitting if (entry[1].place, entry[1].next) == (place, offset)]
        entry = next(iter(there or _of_others(fitting, place)), None)
        if entry is not None:
            _parked.remove(entry)
    reader = entry[1] if entry is not None else PartitionReader(options, config, step=step)
    reader.seek(place, offset)
    return reader


def _of_others(fitting: list[tuple[str, PartitionReader]], place: KafkaPartition) -> list[tuple[str, PartitionReader]]:
    # One that stands elsewhere in this partition is of no more use; one of another partition may be wanted there soon.
    mine = [entry for entry in fitting if entry[1].place == place]
    return mine or (fitting if len(fitting) >= _PARKED else [])


def park(options: Options, reader: PartitionReader, *, step: str) -> None:
    """Keep a reader for the next split; the one that was unused longest is closed when there are many."""
    with _lock:
        _parked.append((_kind(options, client_config(options, step=step)), reader))
        surplus = [_parked.pop(0) for _ in range(len(_parked) - _PARKED)]
    for _, unused in surplus:
        unused.close()


def _kind(options: Options, config: Mapping[str, Any]) -> str:
    return json.dumps([options["isolation"], options["poll_messages"], config], sort_keys=True, default=str)


def _leave_to_parent() -> None:
    """A child has none of the threads of its parent's consumers: it opens its own, and does not even close these."""
    global _lock  # noqa: PLW0603
    _lock = threading.Lock()
    for _, reader in _parked:
        reader.leave_to_parent()
    _parked.clear()


os.register_at_fork(after_in_child=_leave_to_parent)


@atexit.register
def close_parked() -> None:
    """Close all readers that wait in this process; a consumer that is not closed complains at the very end."""
    with _lock:
        waiting = _parked[:]
        _parked.clear()
    for _, reader in waiting:
        reader.close()
