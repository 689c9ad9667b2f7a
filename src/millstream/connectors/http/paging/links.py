"""Next addresses: in the header `Link`, or where answers usually hold them; and other signs that there are more pages."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from millstream.connectors.http.paging.paths import found_at, steps_of
from millstream.errors import StepFailed

_LINK = re.compile(r"<([^>]*)>((?:\s*;\s*[\w!#$&+\-.^`|~*]+\s*=\s*(?:\"(?:[^\"\\]|\\.)*\"|'[^']*'|[^\",;\s]+))*)")
_PARAMETER = re.compile(r";\s*([\w!#$&+\-.^`|~*]+)\s*=\s*(?:\"((?:[^\"\\]|\\.)*)\"|('[^']*'|[^\",;\s]+))")
_ADDRESS = re.compile(r"https?://|[/?]")
_LINKS = [
    steps_of(path)
    for path in [
        "next",
        "next_url",
        "nextUrl",
        "next_page_url",
        "nextPageUrl",
        "next_link",
        "nextLink",
        "/@odata.nextLink",
        "next_page",
        "links.next",
        "links.next.href",
        "_links.next",
        "_links.next.href",
        "paging.next",
        "paging.next.link",
        "pagination.next",
        "pagination.next_url",
        "pagination.next_link",
        "meta.next",
        "meta.next_url",
        "meta.links.next",
    ]
]
_CURSORS = [
    "next",
    "cursor",
    "next_cursor",
    "nextCursor",
    "next_token",
    "nextToken",
    "next_page_token",
    "nextPageToken",
    "continuation",
    "meta.cursor",
    "meta.next_cursor",
    "meta.next_token",
    "response_metadata.next_cursor",
    "cursors.next",
    "cursors.after",
    "pagination.cursor",
    "pagination.next_cursor",
    "paging.cursors.after",
    "paging.next.after",
    "page_info.end_cursor",
]
_MORE = [
    "has_more",
    "hasMore",
    "has_next",
    "hasNext",
    "more",
    "pagination.has_more",
    "pagination.hasMore",
    "meta.has_more",
]
_PAGES = [
    "total_pages",
    "totalPages",
    "pages",
    "last_page",
    "meta.total_pages",
    "meta.last_page",
    "pagination.total_pages",
]


class _Sign(NamedTuple):
    path: str
    value: Any
    paginator: str


def linked(header: str, rel: str) -> str | None:
    """The address with a relation in a header `Link` (RFC 8288): names and relations are the same in any case of letters.

    Servers also write the quotes of other languages; a relation that is not seen would end the slice too early.
    """
    for target, parameters in _LINK.findall(header):
        for name, quoted, plain in _PARAMETER.findall(parameters):
            if name.lower() == "rel" and rel.lower() in (quoted or plain.strip("'")).lower().split():
                return str(target)
    return None


def detected(headers: Mapping[str, str], document: Any, *, is_first: bool) -> str | None:
    """The next address, wherever it stands; `None` when there is none.

    An API that gives addresses gives one with its first page, so a first page without one is the only page.

    Raises:
        StepFailed: (HTTP-025) a first page tells of others, and not how to ask for them: reading it alone would lose their rows.
    """
    address = linked(headers.get("link", ""), "next")
    for steps in _LINKS if address is None else ():
        value = found_at(document, steps)
        if isinstance(value, str) and _ADDRESS.match(value):
            address = value
            break
    sign = _sign(document) if address is None and is_first else None
    if sign is not None:
        msg = "the answer has a next page, but says not how to ask for it"
        found = f"{sign.path}: {repr(sign.value)[:80]}"
        raise StepFailed(msg, code="HTTP-025", found=found, hint=f"say paginator={sign.paginator}")
    return address


def _sign(document: Any) -> _Sign | None:
    """Something that tells of more pages."""
    for path in _CURSORS:
        value = found_at(document, steps_of(path))
        if isinstance(value, (str, int)) and not isinstance(value, bool) and value != "":
            paginator = {"type": "cursor", "path": path, "param": "the parameter that takes it"}
            return _Sign(path, value, repr(paginator))
    numbered = "{'type': 'page'} or {'type': 'offset', 'size': ...}"
    for path in _MORE:
        if (value := found_at(document, steps_of(path))) is True:
            return _Sign(path, value, numbered)
    for path in _PAGES:
        value = found_at(document, steps_of(path))
        if isinstance(value, int) and not isinstance(value, bool) and value > 1:
            return _Sign(path, value, numbered)
    return None
