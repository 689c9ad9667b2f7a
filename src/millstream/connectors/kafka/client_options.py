"""Servers, TLS, SASL and tuning of the Kafka client: what may be said, and the configuration that comes of it.

Settings bear the names of librdkafka and pass an allow-list: what decides about guarantees is not for users to set, and what
names code or plugins is not for anybody. Passwords are named (`${secret:NAME}`), never written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from millstream.errors import InvalidStep
from millstream.model.connector import Option, Options
from millstream.model.secret import with_secrets
from millstream.redaction import HIDDEN, REFERENCE

Role = Literal["producer", "consumer"]

SECRETS = frozenset(
    {
        "sasl.password",
        "sasl.oauthbearer.client.secret",
        "ssl.key.password",
        "ssl.key.pem",
        "ssl.keystore.password",
    }
)
"""Settings whose value may only be named."""
_CONNECTION = frozenset(
    {
        "broker.address.family",
        "client.dns.lookup",
        "client.id",
        "client.rack",
        "connections.max.idle.ms",
        "metadata.max.age.ms",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "sasl.kerberos.keytab",
        "sasl.kerberos.principal",
        "sasl.kerberos.service.name",
        "sasl.mechanism",
        "sasl.mechanisms",
        "sasl.oauthbearer.client.id",
        "sasl.oauthbearer.extensions",
        "sasl.oauthbearer.method",
        "sasl.oauthbearer.scope",
        "sasl.oauthbearer.token.endpoint.url",
        "sasl.username",
        "security.protocol",
        "socket.connection.setup.timeout.ms",
        "socket.keepalive.enable",
        "socket.nagle.disable",
        "socket.receive.buffer.bytes",
        "socket.send.buffer.bytes",
        "socket.timeout.ms",
        "ssl.ca.location",
        "ssl.ca.pem",
        "ssl.certificate.location",
        "ssl.certificate.pem",
        "ssl.cipher.suites",
        "ssl.crl.location",
        "ssl.curves.list",
        "ssl.endpoint.identification.algorithm",
        "ssl.key.location",
        "ssl.keystore.location",
        "ssl.sigalgs.list",
    }
)
_OF_ROLE: Mapping[Role, frozenset[str]] = {
    "producer": frozenset(
        {
            "batch.num.messages",
            "batch.size",
            "compression.level",
            "compression.type",
            "linger.ms",
            "message.max.bytes",
            "sticky.partitioning.linger.ms",
        }
    ),
    "consumer": frozenset(
        {
            "check.crcs",
            "fetch.max.bytes",
            "fetch.message.max.bytes",
            "fetch.min.bytes",
            "fetch.wait.max.ms",
            "max.partition.fetch.bytes",
            "queued.max.messages.kbytes",
            "queued.min.messages",
            "receive.message.max.bytes",
        }
    ),
}


def _servers(value: str | list[str]) -> str:
    """One text of `host:port`, with commas between several."""
    listed = value.split(",") if isinstance(value, str) else value
    texts = [text.strip() if isinstance(text, str) else "" for text in listed]
    if not texts or not all(_is_address(text) for text in texts):
        msg = "'host:port', or a list of several"
        raise ValueError(msg)
    return ",".join(texts)


def _is_address(text: str) -> bool:
    host, _, port = text.rpartition(":")
    return bool(host) and "/" not in host and "@" not in host and port.isdigit()


CLIENT_OPTIONS: dict[str, Option] = {
    "servers": Option(kind=(str, list, tuple), doc="host:port of one or more brokers", check=_servers),
    "client": Option(kind=(dict,), default={}, doc="TLS, SASL and tuning, by the names of librdkafka", is_shown=False),
}
"""For the source and the sink."""


def for_consumer(client: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a sink's client, for one that reads what it wrote."""
    return {name: value for name, value in client.items() if name not in _OF_ROLE["producer"]}


def check_client(options: Options, role: Role, step: str) -> None:
    """Refuse settings that are not on the list, and passwords that are written where they ought to be named."""
    allowed = _CONNECTION | SECRETS | _OF_ROLE[role]
    for name, value in options["client"].items():
        if name not in allowed:
            msg = f"the client setting {name!r} cannot be set"
            hint = "remove it from client=; what decides about guarantees is set by the connector"
            raise InvalidStep(msg, code="KAFKA-003", step=step, known=allowed, hint=hint)
        if name in SECRETS and not (isinstance(value, str) and REFERENCE.fullmatch(value)):
            msg = f"the client setting {name!r} is a secret, which is named and not written"
            hint = f"pass {name!r}: '${{secret:NAME}}' and export NAME where the job runs"
            raise InvalidStep(msg, code="KAFKA-003", step=step, found=HIDDEN, known="${secret:NAME}", hint=hint)
        if not isinstance(value, (str, int, float)):
            msg = f"the client setting {name!r} has a value of another type"
            known = "text, a number, true or false"
            raise InvalidStep(
                msg, code="KAFKA-003", step=step, found=type(value).__name__, known=known, hint="correct it"
            )


def client_config(options: Options, *, step: str) -> dict[str, Any]:
    """The configuration with the values of the secrets it names: for clients alone, never to be shown or kept."""
    return {
        **{name: _value(value, step) for name, value in options["client"].items()},
        "bootstrap.servers": options["servers"],
    }


def _value(value: Any, step: str) -> Any:
    return with_secrets(value, step=step) if isinstance(value, str) else value
