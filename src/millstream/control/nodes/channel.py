"""What a node lets servers see: what its runs tell now, their logs, what they stored. Asked over HTTP with the key in its row."""

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

from millstream.control.nodes.savepoint_views import savepoint_record
from millstream.control.nodes.views import RunViews
from millstream.control.stored.views import StoredViews, encoded
from millstream.errors import MillstreamError

_log = logging.getLogger(__name__)
Answer = tuple[int, dict[str, Any]]
_MOST_BYTES = 1 << 21
"""Of a question."""


class ChannelServer:
    """Serves in threads of its own; it changes nothing."""

    def __init__(
        self,
        views: RunViews,
        stored: StoredViews,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        shown_host: str | None = None,
    ) -> None:
        self.key = secrets.token_urlsafe(32)
        known = {"views": views, "stored": stored, "key": self.key}
        self._server = ThreadingHTTPServer((host, port), type("KnownRequest", (ChannelRequest,), known))
        self._server.daemon_threads = True
        self.address = f"http://{shown_host or host}:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, name="millstream-channel", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Answer nobody any more."""
        self._server.shutdown()
        self._server.server_close()


class ChannelRequest(BaseHTTPRequestHandler):
    """One question of a server."""

    protocol_version = "HTTP/1.1"
    timeout = 30
    views: RunViews
    stored: StoredViews
    key: str

    def do_GET(self) -> None:
        """Answer it, if it comes with the key."""
        if self._is_known():
            code, body = answered(self.views, self.path)
            self._send(code, json.dumps(body).encode())

    def do_POST(self) -> None:
        """What needs more words than a path has: about stored state and dead letters."""
        if not self._is_known():
            return
        length = self.headers.get("Content-Length", "")
        if self.path != "/stored" or not length.isascii() or not length.isdigit() or int(length) > _MOST_BYTES:
            self.close_connection = True
            self._send(404, json.dumps({"message": "a node knows no such question"}).encode())
            return
        self._send(200, encoded(self.stored.answer(self.rfile.read(int(length)))))

    def _is_known(self) -> bool:
        given = self.headers.get("Authorization", "")
        is_known = hmac.compare_digest(given.encode(), f"Bearer {self.key}".encode())
        if not is_known:
            self.close_connection = True
            self._send(401, json.dumps({"message": "the key of the node is missing"}).encode())
        return is_known

    def _send(self, code: int, content: bytes) -> None:
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Into our log, not to stderr."""
        _log.debug(format, *args)


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
            return _told(lambda: questions[question](run, asked))
        case ["metrics"]:
            return 200, {"value": views.page()}
        case ["savepoint"]:
            return _told(lambda: savepoint_record(asked))
        case _:
            return 404, {"message": "a node knows no such question"}


def _told(answer: Callable[[], Any]) -> Answer:
    try:
        return 200, {"value": answer()}
    except MillstreamError as problem:
        return 404, {**problem.fields(), "kind": type(problem).__name__}
    except ValueError as problem:
        return 400, {"message": str(problem)}
