"""The client library of NATS, or how to get it."""

from __future__ import annotations

from millstream.connectors.extras import missing_extra

try:
    from nats.aio.client import Client
    from nats.aio.msg import Msg
    from nats.aio.subscription import Subscription
    from nats.errors import AuthorizationError, MaxPayloadError
    from nats.errors import Error as NatsError
    from nats.js import JetStreamContext
    from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy, RetentionPolicy, StreamConfig, StreamInfo
    from nats.js.errors import APIError, NotFoundError, ServiceUnavailableError
except ModuleNotFoundError as problem:
    raise missing_extra(problem, extra="nats") from problem

__all__ = [
    "APIError",
    "AckPolicy",
    "AuthorizationError",
    "Client",
    "ConsumerConfig",
    "DeliverPolicy",
    "JetStreamContext",
    "MaxPayloadError",
    "Msg",
    "NatsError",
    "NotFoundError",
    "RetentionPolicy",
    "ServiceUnavailableError",
    "StreamConfig",
    "StreamInfo",
    "Subscription",
]
