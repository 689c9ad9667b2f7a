"""The client library of RabbitMQ, or how to get it."""

from __future__ import annotations

import logging

from millstream.connectors.extras import missing_extra

try:
    from aio_pika import Connection, DeliveryMode, Message
    from aio_pika.abc import AbstractChannel, AbstractConnection, AbstractIncomingMessage, AbstractQueue
    from aio_pika.connection import make_url
    from aio_pika.exceptions import (
        AMQPError,
        AuthenticationError,
        ChannelClosed,
        ChannelInvalidStateError,
        ChannelNotFoundEntity,
        ChannelPreconditionFailed,
        ProbableAuthenticationError,
        PublishError,
    )
except ModuleNotFoundError as problem:
    raise missing_extra(problem, extra="rabbitmq") from problem

# Each lost connection would come with a traceback; whoever asks is told by an error, or the connection is opened again.
logging.getLogger("aiormq.connection").setLevel(logging.ERROR)

__all__ = [
    "AMQPError",
    "AbstractChannel",
    "AbstractConnection",
    "AbstractIncomingMessage",
    "AbstractQueue",
    "AuthenticationError",
    "ChannelClosed",
    "ChannelInvalidStateError",
    "ChannelNotFoundEntity",
    "ChannelPreconditionFailed",
    "Connection",
    "DeliveryMode",
    "Message",
    "ProbableAuthenticationError",
    "PublishError",
    "make_url",
]
