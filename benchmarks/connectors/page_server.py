"""An API with numbered pages of items: `python -m benchmarks.connectors.page_server PORT PAGES`."""

from __future__ import annotations

import json
import sys
from typing import Any
from urllib.parse import parse_qs

ITEMS = 100
FEW = 3


def items(page: int) -> list[dict[str, Any]]:
    """Of one page, from 1 on."""
    numbers = range((page - 1) * ITEMS, page * ITEMS)
    return [
        {"id": n, "name": f"item {n}", "price": n % 1000 / 8, "stock": n % 17, "city": f"city {n % 97}"}
        for n in numbers
    ]


def app(pages: int) -> Any:
    """`/items` has so many pages, `/few` has three; the page behind the last is empty."""
    bodies = [json.dumps({"items": items(page)}).encode() for page in range(1, pages + 1)]
    empty = json.dumps({"items": []}).encode()

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        page = int(parse_qs(scope["query_string"].decode()).get("page", ["1"])[0])
        there = pages if scope["path"] == "/items" else FEW
        body = bodies[page - 1] if page <= there else empty
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return answer


def main() -> None:
    """Serve until killed."""
    import uvicorn

    uvicorn.run(app(int(sys.argv[2])), port=int(sys.argv[1]), lifespan="off", log_level="critical", access_log=False)


if __name__ == "__main__":
    main()
