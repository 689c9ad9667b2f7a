"""A schema registry of three endpoints in this process, which can be slow, broken, or want a password."""

import base64
import contextlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote


class RegistryStub:
    """Schemas by number; what was asked is kept in `asked`."""

    def __init__(self):
        self.schemas = {}
        self.subjects = {}
        self.asked = []
        self.login = None
        self.broken = []
        """Answers to give instead, one for each request: (status, body), or an event to wait for."""
        self.url = ""

    def add(self, number, schema, **more):
        self.schemas[number] = {"schema": json.dumps(schema), **more}

    def answer(self, method, path, body, login):
        self.asked.append((method, path))
        if self.login is not None and login != self.login:
            return 401, {"error_code": 401, "message": "Unauthorized"}
        if self.broken:
            planned = self.broken.pop(0)
            if not isinstance(planned, threading.Event):
                return planned
            planned.wait(30)
        if method == "GET" and path.startswith("/schemas/ids/"):
            known = self.schemas.get(int(path.rpartition("/")[2]))
            return (200, known) if known else (404, {"error_code": 40403, "message": "Schema not found"})
        if method == "POST" and path.startswith("/subjects/"):
            return self._post(unquote(path.removeprefix("/subjects/").removesuffix("/versions")), path, body["schema"])
        return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}

    def _post(self, subject, path, schema):
        known = self.subjects.setdefault(subject, {}) if path.endswith("/versions") else self.subjects.get(subject)
        if known is None:
            return 404, {"error_code": 40401, "message": f"Subject '{subject}' not found."}
        if schema not in known:
            if not path.endswith("/versions"):
                return 404, {"error_code": 40403, "message": "Schema not found"}
            known[schema] = max([0, *self.schemas]) + 1
            self.schemas[known[schema]] = {"schema": schema}
        return 200, {"id": known[schema], "subject": subject, "version": len(known), "schema": schema}


@contextlib.contextmanager
def running_registry():
    stub = RegistryStub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(stub))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    stub.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield stub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(stub):
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self._respond(None)

        def do_POST(self):
            self._respond(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def _respond(self, body):
            given = self.headers.get("Authorization", "").removeprefix("Basic ")
            login = base64.b64decode(given).decode() if given else None
            status, answer = stub.answer(self.command, self.path, body, login)
            data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            with contextlib.suppress(ConnectionError):
                self.send_response(status)
                if status in {301, 302, 307}:
                    self.send_header("Location", stub.url + "/schemas/ids/1")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        def log_message(self, *_):
            pass

    return Handler
