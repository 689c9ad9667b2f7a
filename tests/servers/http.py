"""An HTTP server that answers as a test tells it to, in a thread of this process, on a free port of this machine."""

import asyncio
import contextlib
import dataclasses
import json
import socket
import threading
from urllib.parse import parse_qsl

import uvicorn


@dataclasses.dataclass(frozen=True)
class Asked:
    """A request as it came in; names of headers are in lower case."""

    method: str
    path: str
    query: dict
    headers: dict
    body: bytes

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def form(self):
        return dict(parse_qsl(self.body.decode(), keep_blank_values=True))


@dataclasses.dataclass(frozen=True)
class Reply:
    """An answer. `cut` bytes of the body are sent before the connection breaks; nothing is before the event `held`."""

    body: object = b""
    status: int = 200
    headers: tuple = ()
    cut: int | None = None
    held: threading.Event | None = None

    @property
    def content(self):
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


class Api:
    """Calls `answer(asked)` for each request, which gives a `Reply`, or what is its body; `asked` lists them all."""

    def __init__(self, answer):
        self.answer = answer
        self.asked = []
        self._socket = None
        self._lock = threading.Lock()
        self.port = None
        self.start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def start(self):
        # Of this protocol, or asyncio leaves small packets waiting for each other.
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(("127.0.0.1", self.port or 0))
        self.port = self._socket.getsockname()[1]
        config = uvicorn.Config(
            self._app,
            interface="asgi3",
            lifespan="off",
            ws="none",
            log_level="critical",
            access_log=False,
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._socket]}, daemon=True)
        self._thread.start()
        while not self._server.started:
            assert self._thread.is_alive(), "the server did not start"
            threading.Event().wait(0.005)

    def stop(self):
        self._server.should_exit = True
        self._thread.join(20)
        self._socket.close()

    @contextlib.contextmanager
    def away(self):
        """The server cannot be reached."""
        self.stop()
        try:
            yield
        finally:
            self.start()

    def paths(self):
        return [each.path for each in self.asked]

    async def _app(self, scope, receive, send):
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        headers = {name.decode().lower(): value.decode() for name, value in scope["headers"]}
        query = dict(parse_qsl(scope["query_string"].decode(), keep_blank_values=True))
        asked = Asked(scope["method"], scope["path"], query, headers, body)
        with self._lock:
            self.asked.append(asked)
        given = self.answer(asked)
        await _send(given if isinstance(given, Reply) else Reply(given), send)


async def _send(reply, send):
    while reply.held is not None and not reply.held.is_set():
        await asyncio.sleep(0.005)
    content = reply.content
    headers = [(name.lower().encode(), value.encode()) for name, value in reply.headers]
    headers.append((b"content-length", str(len(content)).encode()))
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    if reply.cut is None:
        await send({"type": "http.response.body", "body": content})
    else:
        # The application ends in the middle of its answer: the server breaks the connection.
        await send({"type": "http.response.body", "body": content[: reply.cut], "more_body": True})


@contextlib.contextmanager
def serving(answer):
    """A server for the length of a block."""
    api = Api(answer)
    try:
        yield api
    finally:
        api.stop()
