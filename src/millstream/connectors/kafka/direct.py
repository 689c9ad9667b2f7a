"""Writes messages from the tasks, where readers see them at once: for guarantees under which rows may come twice."""

from __future__ import annotations

import os
import threading
from typing import Any

import pyarrow as pa

from millstream.connectors.kafka.client_options import client_config
from millstream.connectors.kafka.clients import (
    ClientErrors,
    Undelivered,
    error_of,
    failure,
    leave_to_parent,
    open_producer,
)
from millstream.connectors.kafka.library import KafkaException, Producer
from millstream.connectors.kafka.outgoing.latest import latest_per_key
from millstream.connectors.kafka.outgoing.messages import MessageEncoder
from millstream.connectors.kafka.outgoing.sending import MessageSender
from millstream.contract.sink import SinkTask
from millstream.model.connector import Options
from millstream.model.schema import Schema

_Identity = tuple[tuple[str, Any], ...]


class _Connection:
    """A producer with what it reports."""

    def __init__(self, config: dict[str, Any], step: str) -> None:
        self.errors, self.undelivered = ClientErrors(), Undelivered()
        self.producer: Producer = open_producer(config, step=step, errors=self.errors, undelivered=self.undelivered)


class _Parked:
    """Connections of this process that wait for the next task. A child of the process opens its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[_Identity, list[_Connection]] = {}
        os.register_at_fork(after_in_child=self._leave_to_parent)

    def take(self, config: dict[str, Any], step: str) -> _Connection:
        """A connection for one task alone."""
        with self._lock:
            waiting = self._waiting.get(_identity(config), [])
            if waiting:
                return waiting.pop()
        return _Connection(config, step)

    def park(self, config: dict[str, Any], connection: _Connection) -> None:
        """Leave a connection on which all has arrived for another task."""
        with self._lock:
            self._waiting.setdefault(_identity(config), []).append(connection)

    def _leave_to_parent(self) -> None:
        for connections in self._waiting.values():
            for each in connections:
                leave_to_parent(each.producer)
        self._waiting, self._lock = {}, threading.Lock()


_parked = _Parked()


def _identity(config: dict[str, Any]) -> _Identity:
    return tuple(sorted(config.items()))


class KafkaDirectWriter:
    """Sends a task's messages as they come; all have arrived when it has finished."""

    def __init__(self, options: Options, schema: Schema, task: SinkTask) -> None:
        self._encoder = MessageEncoder(options, schema, step=task.step)
        self._topic: str | None = next(iter(options["topics"]), None)
        self._held: list[pa.RecordBatch] | None = [] if options["mode"] == "upsert" else None
        self._step, self._rows = task.step, 0
        self._config = client_config(options, step=task.step)
        self._connection = _parked.take(self._config, task.step)
        self._sender = MessageSender(self._connection.producer, lambda: None, step=task.step)

    def write(self, batch: pa.RecordBatch) -> None:
        """Send a batch; in mode 'upsert' hold it, since a later row may replace one of its rows."""
        if not batch.num_rows:
            return
        messages = self._encoder.encode(batch)
        self._rows += batch.num_rows
        if self._held is None:
            self._send(messages)
        else:
            self._held.append(messages)

    def finish(self) -> Any:
        """Wait until all messages have arrived."""
        for messages in latest_per_key(self._held or []):
            self._send(messages)
        try:
            self._sender.drain()
        except KafkaException as problem:
            raise self._failed(problem) from None
        if (error := self._connection.undelivered.error) is not None:
            raise self._failed(KafkaException(error))
        _parked.park(self._config, self._connection)
        return {"rows": self._rows} if self._rows else None

    def _send(self, messages: pa.RecordBatch) -> None:
        try:
            self._sender.send(messages, self._topic)
        except KafkaException as problem:
            raise self._failed(problem) from None

    def _failed(self, problem: KafkaException) -> Exception:
        return failure("messages cannot be written", error_of(problem), self._connection.errors, step=self._step)

    def abort(self) -> None:
        """Drop what has not been sent."""
        self._connection.producer.purge()
