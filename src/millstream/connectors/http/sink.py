"""The `http` sink: rows wait in the checkpoint until their epoch is durable, then the driver sends them in numbered batches.

What a batch is called is equal when it is sent again, so a receiver that knows the header takes it once. Marks, fences and
staging are those of functions as sinks: neither a function nor a receiver can be asked what it has.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

import pyarrow as pa

from millstream.connectors.http.asking.exchange import Exchange
from millstream.connectors.http.opening import opened_exchange
from millstream.connectors.http.sending import batch_request
from millstream.connectors.http.sink_settings import SinkSettings, sink_settings
from millstream.connectors.marked.batch import ConsumerContext
from millstream.connectors.marked.committer import MarkedCommitter, StagedRowsWriter
from millstream.connectors.marked.keeping import Batches, CheckpointKeeper
from millstream.contract.sink import SinkContext
from millstream.errors import MillstreamError
from millstream.model.connector import Options

_BEAT_SECONDS = 1.0


class HttpWriter(StagedRowsWriter):
    """Stages the rows of one task."""


class HttpCommitter(MarkedCommitter):
    """Sends each epoch, in batches that are called the same when they are sent again."""

    def __init__(self, options: Options, context: SinkContext) -> None:
        settings = sink_settings(options)
        self._sender = BatchSender(settings, context)
        super().__init__(context, CheckpointKeeper(context, self._sender.send_all), batch_rows=settings.batch_rows)

    def close(self) -> None:
        """Close the connections."""
        self._sender.close()


class BatchSender:
    """Sends the batches of an epoch, under names that are the same when they are sent again."""

    def __init__(self, settings: SinkSettings, context: SinkContext) -> None:
        self._settings, self._context = settings, context
        self._opened: tuple[Callable[[], None], Exchange] | None = None
        self._lock = threading.Lock()

    def send_all(self, batches: Batches, _: int | None) -> None:
        """Send as many batches at the same time as may be; the first that fails ends it, once those under way have ended."""
        under_way: set[Future[None]] = set()
        with ThreadPoolExecutor(self._settings.concurrency, "millstream-http") as senders:
            for told, batch in batches():
                under_way = self._ended(under_way, at_most=self._settings.concurrency - 1)
                under_way.add(senders.submit(self._send, told, batch))
            self._ended(under_way, at_most=0)

    def _ended(self, under_way: set[Future[None]], *, at_most: int) -> set[Future[None]]:
        """Wait until so few batches are under way, and say now and then that this run is alive."""
        while len(under_way) > at_most:
            self._context.heartbeat()
            done, under_way = wait(under_way, timeout=_BEAT_SECONDS, return_when=FIRST_COMPLETED)
            for each in done:
                each.result()
        return under_way

    def _send(self, told: ConsumerContext, batch: pa.RecordBatch) -> None:
        try:
            self._exchange().ask(batch_request(self._settings, batch, told.key), lambda _, __: None)
        except MillstreamError as problem:
            raise problem.of_step(self._context.step) from problem

    def _exchange(self) -> Exchange:
        with self._lock:
            if self._opened is None:
                settings = self._settings
                client, exchange = opened_exchange(
                    allowed=settings.allowed,
                    limits=settings.limits,
                    auth=settings.auth,
                    rules=settings.rules,
                    rates=settings.rates,
                    step=self._context.step,
                    wait=self._pause,
                )
                self._opened = client.close, exchange
            return self._opened[1]

    def _pause(self, seconds: float) -> bool:
        """Wait for a server, as long as this run owns the sink."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self._context.heartbeat()
            time.sleep(min(left, _BEAT_SECONDS))
        return True

    def close(self) -> None:
        """Close the connections."""
        if self._opened is not None:
            self._opened[0]()
            self._opened = None
