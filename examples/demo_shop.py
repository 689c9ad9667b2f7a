"""A shop's API: /orders?since_id=20 gives up to fifty orders behind order 20, and there are more of them every second."""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

PAGE = 50
STARTED = time.monotonic()


class ShopApi(BaseHTTPRequestHandler):
    """Answers with pages of orders."""

    def do_GET(self) -> None:
        after = int(dict(parse_qsl(urlsplit(self.path).query)).get("since_id", 0))
        newest = 200 + int((time.monotonic() - STARTED) * 10)
        numbers = range(after + 1, min(after + PAGE, newest) + 1)
        orders = [{"id": number, "customer": f"c{number % 5}", "amount": number % 40 + 0.5} for number in numbers]
        body = json.dumps({"data": orders}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def serve_shop() -> str:
    """Serve in a thread; gives the address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), ShopApi)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_address[1]}"
