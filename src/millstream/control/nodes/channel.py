"""What a node lets servers see: what its runs tell now, and their logs. Asked over HTTP with the key in the node's row."""

from __future__ import annotations

import hmac
import json
import logging
import secrets
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from millstream.control.nodes.views import RunViews
from millstream.errors import MillstreamError

_log = logging.getLogger(__name__)
Answer = tuple[int, dict[str, Any]]


class ChannelServer:
    """Serves in threads of its own; it changes nothing."""

    def __init__(
        self, views: RunViews, *, host: str = "127.0.0.1", port: int = 0, shown_host: str | None = None
    ) -> None:
        self.key = secrets.token_urlsafe(32)
        self._server = ThreadingHTTPServer((host, port), _handler(views, self.key))
        self._server.daemon_threads = True
        self.address = f"http://{shown_host or host}:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, name="millstream-channel", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Answer nobody any more."""
        self._server.shutdown()
        self._server.server_close()


def _handler(views: RunViews, key: str) -> type[BaseHTTPRequestHandler]:
    class ChannelRequest(BaseHTTPRequestHandler):
        """One question of a server."""

        protocol_version = "HTTP/1.1"
        timeout = 30

        def do_GET(self) -> None:
            """Answer it, if it comes with the key."""
            given = self.headers.get("Authorization", "")
            is_known = hmac.compare_digest(given.encode(), f"Bearer {key}".encode())
            code, body = (
                answered(views, self.path) if is_known else (401, {"message": "the key of the node is missing"})
            )
            content = json.dumps(body).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            """Into our log, not to stderr."""
            _log.debug(format, *args)

    return ChannelRequest


def answered(views: RunViews, path: str) -> Answer:
    """What a path asks for; what is wrong with it is told as every error is."""
    parts = urlsplit(path)
    asked = dict(parse_qsl(parts.query))
    questions: dict[str, Callable[[str, dict[str, str]], Any]] = {
        "sight": views.sight,
        "pulse": views.pulse,
        "epochs": views.epochs,
        "dump": views.dump,
        "logs": views.logs,
        "log": views.log,
        "metrics": views.metrics,
    }
    match [unquote(part) for part in parts.path.strip("/").split("/")]:
        case ["runs", run, question] if question in questions:
            try:
                return 200, {"value": questions[question](run, asked)}
            except MillstreamError as problem:
                return 404, {**problem.fields(), "kind": type(problem).__name__}
            except ValueError as problem:
                return 400, {"message": str(problem)}
        case ["metrics"]:
            return 200, {"value": views.page()}
        case _:
            return 404, {"message": "a node knows no such question"}
