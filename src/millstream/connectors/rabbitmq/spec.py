"""What is known of the `rabbitmq` connector without its client."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from millstream.connectors.formats.options import DECODE, ENCODE, FORMATS
from millstream.connectors.messaging.beginnings import checked_start, checked_until
from millstream.connectors.messaging.outgoing import check_outgoing, checked_headers
from millstream.connectors.messaging.received import check_columns, checked_metadata
from millstream.errors import InvalidStep
from millstream.model.connector import (
    ConnectorDeclaration,
    ConnectorSpec,
    Extra,
    Option,
    Options,
    SinkDeclaration,
    SourceDeclaration,
)
from millstream.model.guarantee import SinkCapability, SourceCapability
from millstream.model.schema import Schema
from millstream.redaction import REFERENCE, SecretUrl

METADATA = ("offset", "routing_key", "exchange", "message_id", "timestamp", "redelivered", "headers")
"""What a column may hold beside the body."""
_CODE = "RABBIT-010"


def rabbitmq(queue: object, *, url: object, **options: Any) -> ConnectorSpec:
    """A queue of RabbitMQ: a stream queue is a replayable source, a plain one gives each message at least once; both are sinks.

    Args:
        queue: the name of the queue.
        url: `amqp://user:${secret:NAME}@host:port/vhost`, or `amqps://` with TLS.
        **options: as a source `kind`, `start`, `until`, `prefetch`, `format`, `metadata`, `on_data_loss`; as a sink `kind`,
            `exchange`, `routing_key_field`, `headers`, `format`, `create`; for both `client` and the options of formats.
    """
    return ConnectorSpec("rabbitmq", {"queue": queue, "url": url, **options})


def _url(value: str) -> str:
    try:
        parts = urlsplit(REFERENCE.sub("named", value))
        is_address = parts.scheme in {"amqp", "amqps"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address:
        msg = "a url such as amqp://user:${secret:NAME}@host:5672/"
        raise ValueError(msg)
    return SecretUrl(value)


def _client(value: dict[str, Any]) -> dict[str, Any]:
    known = {"ca_file": str, "cert_file": str, "key_file": str, "name": str, "heartbeat": int}
    for name, given in value.items():
        if name not in known or not isinstance(given, known[name]) or isinstance(given, bool):
            msg = f"settings among {', '.join(known)}; heartbeat in seconds"
            raise ValueError(msg)
    return value


def _above_zero(value: int) -> int:
    if not 0 < value <= 65_535:
        msg = "a whole number from 1 to 65535"
        raise ValueError(msg)
    return value


def _check_source(options: Options, schema: Schema, step: str) -> None:
    if options["kind"] == "stream" and options["start"] is None:
        msg = "a stream queue needs a beginning"
        hint = "pass start='earliest', 'latest', an offset or a time"
        raise InvalidStep(msg, code=_CODE, step=step, hint=hint)
    if options["kind"] == "queue":
        for name in ("start", "until"):
            if options[name] is not None:
                msg = f"{name}= is of stream queues: a plain queue gives what is in it, and forgets it"
                raise InvalidStep(msg, code=_CODE, step=step, hint=f"leave {name}= out, or pass kind='stream'")
        if "offset" in options["metadata"].values():
            msg = "messages of a plain queue have no offset"
            raise InvalidStep(msg, code=_CODE, step=step, hint="correct metadata=, or pass kind='stream'")
    check_columns(options, schema, step, code=_CODE)


def _check_sink(options: Options, schema: Schema, step: str) -> None:
    check_outgoing(options, schema, step, address="routing_key_field", code="RABBIT-020")


def _source_capability(options: Options) -> SourceCapability:
    is_stream = options.get("kind") == "stream"
    return SourceCapability.REPLAYABLE if is_stream else SourceCapability.AT_LEAST_ONCE


def _is_bounded(options: Options) -> bool:
    return options["until"] is not None


_KINDS = ("queue", "stream")
_SHARED = {
    "queue": Option(kind=(str,), doc="the name of the queue"),
    "url": Option(kind=(str,), doc="`amqp://user:${secret:NAME}@host:port/vhost`, or `amqps://`", check=_url),
    "client": Option(
        kind=(dict,),
        default={},
        doc="`ca_file`, `cert_file`, `key_file`, `name`, `heartbeat` in seconds",
        check=_client,
        is_shown=False,
    ),
    "kind": Option(kind=(str,), default="queue", choices=_KINDS, doc="a plain queue, or a stream queue"),
}
_SOURCE = {
    **_SHARED,
    "start": Option(
        kind=(object,),
        default=None,
        doc="of a stream queue, where to begin: `earliest`, `latest`, an offset, or a time with its zone",
        check=checked_start,
    ),
    "until": Option(
        kind=(object,),
        default=None,
        doc="of a stream queue, where to end, decided once: `latest`, an offset or a time",
        check=checked_until,
    ),
    "prefetch": Option(
        kind=(int,),
        default=10_000,
        doc="of a plain queue, how many messages may be here and not acknowledged: also the most of an epoch",
        check=_above_zero,
    ),
    "ahead_bytes": Option(
        kind=(int,), default=64 << 20, doc="of a plain queue, how much is received ahead of the epochs"
    ),
    "format": Option(kind=(str,), default="json", choices=FORMATS, doc="what bodies are"),
    **DECODE,
    "metadata": Option(
        kind=(dict,),
        default={},
        doc="column → `offset`, `routing_key`, `exchange`, `message_id`, `timestamp`, `redelivered` or `headers`",
        check=checked_metadata(METADATA),
    ),
    "on_data_loss": Option(
        kind=(str,), default="fail", choices=("fail", "skip"), doc="when messages are gone before they were read"
    ),
}
_SINK = {
    **_SHARED,
    **ENCODE,
    "exchange": Option(
        kind=(str,),
        default="",
        doc="the exchange to publish to; the queue itself if not given, else `queue` is the key",
    ),
    "routing_key_field": Option(
        kind=(str, type(None)), default=None, doc="the column that holds the routing key of each row"
    ),
    "headers": Option(kind=(dict,), default={}, doc="header → column", check=checked_headers),
    "format": Option(kind=(str,), default="json", choices=FORMATS, doc="how bodies are written"),
    "create": Option(
        kind=(bool,), default=True, doc="whether to create a queue that is missing, where no exchange is named"
    ),
}

DECLARATION = ConnectorDeclaration(
    name="rabbitmq",
    extras=(Extra("rabbitmq", "aio_pika"), Extra("avro", "fastavro", "format='avro'")),
    source=SourceDeclaration(
        options=_SOURCE,
        capability=SourceCapability.REPLAYABLE,
        capability_of=_source_capability,
        variants=tuple({"kind": kind} for kind in _KINDS),
        enumerator="millstream.connectors.rabbitmq.source:open_enumerator",
        reader="millstream.connectors.rabbitmq.source:open_reader",
        is_bounded=_is_bounded,
        check=_check_source,
        probe="millstream.connectors.rabbitmq.looking:probe_source",
    ),
    sink=SinkDeclaration(
        options=_SINK,
        capability=SinkCapability.AT_LEAST_ONCE,
        writer="millstream.connectors.rabbitmq.sink:RabbitWriter",
        committer="millstream.connectors.rabbitmq.sink:RabbitCommitter",
        check=_check_sink,
        probe="millstream.connectors.rabbitmq.looking:probe_sink",
    ),
)
