"""The server process: where it listens, and that nobody listens in."""

from __future__ import annotations

import ipaddress
import os
import secrets
import socket
from pathlib import Path
from typing import NamedTuple

import uvicorn

from millstream.errors import InvalidStep
from millstream.server.app import create_app
from millstream.server.service import Service

_KEY_BYTES = 32
_GRACE_SECONDS = 10


class Address(NamedTuple):
    """Where the server listens, and with which certificate."""

    host: str = "127.0.0.1"
    port: int = 8080
    certificate: str | None = None
    key: str | None = None
    insecure: bool = False
    """Somebody else takes care that nobody listens in: a proxy with TLS, or a network of its own."""


def check_address(address: Address) -> None:
    """Refuse to send tokens over the network in the clear.

    Raises:
        InvalidStep: (REST-040) another machine could listen in.
    """
    if (address.certificate is None) != (address.key is None):
        msg = "a certificate and its key come together"
        raise InvalidStep(msg, code="REST-041", hint="pass both, or none")
    if address.certificate is not None or address.insecure or _is_loopback(address.host):
        return
    msg = "without TLS the server listens on this machine only"
    hint = "pass --tls-cert and --tls-key, or --insecure behind a proxy with TLS"
    raise InvalidStep(msg, code="REST-040", found=address.host, known="127.0.0.1", hint=hint)


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def server_of(service: Service, address: Address) -> uvicorn.Server:
    """A server that is ready to run; the caller runs it in a thread of its choice."""
    check_address(address)
    app = create_app(service)
    config = uvicorn.Config(
        app,
        host=address.host,
        port=address.port,
        ssl_certfile=address.certificate,
        ssl_keyfile=address.key,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=_GRACE_SECONDS,
        h11_max_incomplete_event_size=64 * 1024,
    )
    server = uvicorn.Server(config)
    app.state.hub.is_ending = lambda: server.should_exit
    return server


def bound(address: Address) -> socket.socket:
    """A socket that listens already: its port is known before the server runs.

    Raises:
        OSError: the port is taken.
    """
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind((address.host, address.port))
    listening.listen(2048)
    return listening


def signing_key(path: Path) -> bytes:
    """The key of cursors, made at the first start; servers of one service share the file or its content."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    except FileExistsError:
        return path.read_bytes()
    key = secrets.token_bytes(_KEY_BYTES)
    with os.fdopen(descriptor, "wb") as file:
        file.write(key)
        file.flush()
        os.fsync(descriptor)
    return key
