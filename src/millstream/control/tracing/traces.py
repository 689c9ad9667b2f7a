"""Where the spans of a node's runs go: nowhere, or over OTLP/HTTP to a collector.

Nobody waits for a collector. Spans lie in a queue of a fixed length, a thread sends them, and what it cannot send is dropped.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol

from millstream import __version__
from millstream.control.tracing.spans import TraceSpan
from millstream.errors import InvalidStep
from millstream.redaction import redacted

_SEND_SECONDS = 5.0
_CLOSE_MS = 2000
_QUEUED = 2048
_DELAY_MS = 1000


class Tracing(NamedTuple):
    """What the operator says of traces."""

    endpoint: str
    """The address of a collector: spans are posted to `/v1/traces` below it."""
    every: int = 100
    """One epoch of so many is traced."""


class Traces(Protocol):
    """Takes spans."""

    every: int

    def send(self, spans: Iterable[TraceSpan]) -> None:
        """Hand spans over; never waits, never fails."""
        ...

    def close(self) -> None:
        """Send what is left, for a moment."""
        ...


class NoTraces:
    """Nobody asked for traces."""

    every = 1

    def send(self, spans: Iterable[TraceSpan]) -> None:
        """They are not even made."""

    def close(self) -> None:
        """There is nothing to send."""


def open_traces(tracing: Tracing | None) -> Traces:
    """The way out.

    Raises:
        InvalidStep: (CTL-400) the address is none, or (CTL-401) the library is not installed.
    """
    if tracing is None:
        return NoTraces()
    if not tracing.endpoint.startswith(("http://", "https://")):
        msg = "not the address of a collector"
        hint = "name one such as http://localhost:4318; its port for HTTP, not the one for gRPC"
        raise InvalidStep(msg, code="CTL-400", found=redacted(tracing.endpoint), known="http://…, https://…", hint=hint)
    try:
        return OtlpTraces(tracing)
    except ModuleNotFoundError as problem:
        msg = f"traces need the library {problem.name!r}, which is not installed"
        raise InvalidStep(msg, code="CTL-401", hint="pip install 'millstream[otel]' where nodes run") from problem


class OtlpTraces:
    """Sends to a collector. Headers, such as a token of the collector's, come from `OTEL_EXPORTER_OTLP_HEADERS`."""

    def __init__(self, tracing: Tracing) -> None:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.sdk.trace.sampling import ALWAYS_ON

        self.every = tracing.every
        self._ids, self._lock = _chosen_ids(), threading.Lock()
        exporter = OTLPSpanExporter(f"{tracing.endpoint.rstrip('/')}/v1/traces", timeout=_SEND_SECONDS)
        self._queue = BatchSpanProcessor(exporter, max_queue_size=_QUEUED, schedule_delay_millis=_DELAY_MS)
        # Not `create`: it would tell of the machine whatever the environment holds.
        resource = Resource({"service.name": "millstream", "service.version": __version__})
        provider = TracerProvider(sampler=ALWAYS_ON, resource=resource, id_generator=self._ids, shutdown_on_exit=False)
        provider.add_span_processor(self._queue)
        self._tracer = provider.get_tracer("millstream", __version__)

    def send(self, spans: Iterable[TraceSpan]) -> None:
        """Into the queue."""
        with self._lock:
            for span in spans:
                self._send(span)

    def _send(self, span: TraceSpan) -> None:
        from opentelemetry.trace import Status, StatusCode

        self._ids.trace, self._ids.span = span.trace, span.id
        made = self._tracer.start_span(
            span.name, context=_below(span), start_time=_nanoseconds(span.start), attributes=span.attributes
        )
        if span.error is not None:
            made.set_status(Status(StatusCode.ERROR, span.error))
        made.end(end_time=_nanoseconds(span.end))

    def close(self) -> None:
        """A collector that is away is not waited for."""
        closing = threading.Thread(target=self._queue.shutdown, name="millstream-traces", daemon=True)
        closing.start()
        closing.join(_CLOSE_MS / 1000)


def _chosen_ids() -> Any:
    """Gives the ids that a span has by what it is of."""
    from opentelemetry.sdk.trace.id_generator import IdGenerator

    class ChosenIds(IdGenerator):
        trace = span = 1

        def generate_span_id(self) -> int:
            return self.span

        def generate_trace_id(self) -> int:
            return self.trace

    return ChosenIds()


def _below(span: TraceSpan) -> Any:
    """The context in which a span begins."""
    from opentelemetry.context import Context
    from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

    if span.parent is None:
        return Context()
    parent = SpanContext(span.trace, span.parent, is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED))
    return set_span_in_context(NonRecordingSpan(parent), Context())


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1_000_000_000)
