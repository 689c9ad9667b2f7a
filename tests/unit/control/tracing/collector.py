"""A collector of traces that keeps what it is sent."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Collector:
    """Listens on this machine until it is closed."""

    def __init__(self, status=200):
        self.bodies, collector = [], self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.path == "/v1/traces":
                    collector.bodies.append(body)
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def spans(self):
        """All spans that came."""
        asked = (ExportTraceServiceRequest.FromString(body) for body in list(self.bodies))
        return [
            span for each in asked for of in each.resource_spans for scope in of.scope_spans for span in scope.spans
        ]

    def close(self):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def attributes(span):
    """Of a span, as plain values."""
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in span.attributes}
