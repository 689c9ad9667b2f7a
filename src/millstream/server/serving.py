"""The server of the application: it listens before anything is said of it, and ends its streams when it goes down."""

from __future__ import annotations

import gc
import socket
from pathlib import Path

import uvicorn

from millstream.server.app import create_app
from millstream.server.patience import PatientProtocol
from millstream.server.service import Service

_GRACE_SECONDS = 5


def server_of(
    service: Service, *, certificate: Path | None = None, certificate_key: Path | None = None
) -> uvicorn.Server:
    """A server that is ready to run on a socket, in a thread of the caller's choice."""
    app = create_app(service)
    config = uvicorn.Config(
        app,
        http=PatientProtocol,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=_GRACE_SECONDS,
        h11_max_incomplete_event_size=64 * 1024,
        ssl_certfile=certificate,
        ssl_keyfile=None if certificate_key is None else str(certificate_key),
    )
    server = uvicorn.Server(config)
    app.state.hub.is_ending = lambda: server.should_exit
    return server


def listening(host: str, port: int) -> socket.socket:
    """Listen before anything is said of it: who reads the address can call it."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind((host, port))
    made.listen(128)
    return made


def spare_what_stays() -> None:
    """Take what was made at the start out of collections: each would walk through all of it, in the middle of a request."""
    gc.collect()
    gc.freeze()
