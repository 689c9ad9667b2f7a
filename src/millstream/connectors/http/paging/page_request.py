"""A request as a value, with secrets still by name: what may be shown, compared and stored. Only the client fills them in."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal
from urllib.parse import parse_qsl, quote, urlencode, urljoin, urlsplit, urlunsplit

from millstream.connectors.http.paging.paths import steps_of, with_value
from millstream.redaction import HIDDEN, REFERENCE

PLACES = ("query", "header", "json", "form", "path")
TokenPlace = Literal["query", "header", "json", "form", "path"]
"""Where a token or a number goes: `path` fills `${token}` in the url, or is the next address itself."""
Pairs = tuple[tuple[str, str], ...]

_SLICE = re.compile(r"\$\{slice:([A-Za-z_][A-Za-z0-9_]*)\}")
_TOKEN = "${token}"
_SECRET_NAME = re.compile(
    r"passw(or)?d|passphrase|pwd|secret|signature|credential|authorization|cookie|jwt|^(token|key|auth|sig)$|^x[._-](key|token)$"
    r"|(api|app|access|auth|bearer|client|private|refresh|security|session|subscription)[._-]?(key|token)",
    re.IGNORECASE,
)


@dataclasses.dataclass(frozen=True, slots=True)
class PageRequest:
    """What is asked of a server."""

    method: str
    url: str
    query: Pairs = ()
    headers: Pairs = ()
    json: Any = None
    form: Pairs = ()
    content: bytes = b""
    """A body that is written already, in place of the two before it."""


def request_of(options: Mapping[str, Any]) -> PageRequest:
    """The request that the options describe, before slices and tokens fill it."""
    return PageRequest(
        method=options["method"],
        url=options["url"],
        query=pairs_of(options["params"]),
        headers=pairs_of(options["headers"]),
        json=options["json"],
        form=pairs_of(options["form"] or {}),
    )


def pairs_of(values: Mapping[str, Any]) -> Pairs:
    """Names and values as texts."""
    return tuple((name, text_of(value)) for name, value in values.items())


def text_of(value: Any) -> str:
    """A value as it stands in a url or header."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def slice_names(request: PageRequest) -> set[str]:
    """The names of slice values that a request needs."""
    return {name for text in request_texts(request) for name in _SLICE.findall(text)}


def secret_names(request: PageRequest) -> set[str]:
    """The names of secrets that a request needs."""
    return {name for text in request_texts(request) for name in REFERENCE.findall(text)}


def request_texts(request: PageRequest) -> Iterator[str]:
    """All texts of a request in which something may be named."""
    yield request.url
    for pairs in (request.query, request.headers, request.form):
        for name, value in pairs:
            yield from (name, value)
    yield from _json_texts(request.json)


def _json_texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _json_texts(each)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _json_texts(each)


def for_slice(request: PageRequest, values: Mapping[str, Any]) -> PageRequest:
    """The request with the values of a slice where it names them."""
    if not values:
        return request

    def text(each: str) -> str:
        return _SLICE.sub(lambda name: text_of(values[name[1]]), each)

    def value(each: str) -> Any:
        whole = _SLICE.fullmatch(each)
        return text(each) if whole is None else values[whole[1]]

    url = _SLICE.sub(lambda name: quote(text_of(values[name[1]]), safe=""), request.url)
    return with_texts(dataclasses.replace(request, url=url), text, value)


def with_texts(
    request: PageRequest, text: Callable[[str], str], value: Callable[[str], Any] | None = None
) -> PageRequest:
    """The request with all texts but its url replaced; `value` for those inside JSON, which may become something else."""
    return dataclasses.replace(
        request,
        query=tuple((name, text(each)) for name, each in request.query),
        headers=tuple((name, text(each)) for name, each in request.headers),
        form=tuple((name, text(each)) for name, each in request.form),
        json=_json_with(request.json, value or text),
    )


def _json_with(value: Any, text: Callable[[str], Any]) -> Any:
    if isinstance(value, str):
        return text(value)
    if isinstance(value, Mapping):
        return {name: _json_with(each, text) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json_with(each, text) for each in value]
    return value


def with_token(request: PageRequest, place: TokenPlace, name: str, value: Any) -> PageRequest:
    """The request with a value in one of the five places; one that is there already is replaced."""
    match place:
        case "query":
            return dataclasses.replace(request, query=_replaced(request.query, name, text_of(value)))
        case "header":
            return dataclasses.replace(request, headers=_replaced(request.headers, name, text_of(value)))
        case "form":
            return dataclasses.replace(request, form=_replaced(request.form, name, text_of(value)))
        case "json":
            return dataclasses.replace(request, json=with_value(request.json, steps_of(name), value))
        case _ if _TOKEN in request.url:
            return dataclasses.replace(request, url=request.url.replace(_TOKEN, quote(text_of(value), safe="")))
        case _:
            return at_address(request, text_of(value))


def without_token(request: PageRequest) -> PageRequest:
    """The request of a first page that has no token: its place in the url stays empty."""
    return dataclasses.replace(request, url=request.url.replace(_TOKEN, ""))


def _replaced(pairs: Pairs, name: str, value: str) -> Pairs:
    return (*(pair for pair in pairs if pair[0].lower() != name.lower()), (name, value))


def at_address(request: PageRequest, address: str) -> PageRequest:
    """The same request at another address, which may be relative and has its own query.

    Parameters that hold a secret go along, unless the address has them: a server that gives a next address leaves ours out or in.
    """
    url = urljoin(request.url, address)
    there = {name for name, _ in parse_qsl(urlsplit(url).query, keep_blank_values=True)}
    kept = tuple((name, each) for name, each in request.query if REFERENCE.search(each) and name not in there)
    return dataclasses.replace(request, url=url, query=kept)


def without_values(address: str, hidden: set[str], named: Mapping[str, str] | None = None) -> str:
    """An address as it may be stored in positions.

    Args:
        address: where the next page is.
        hidden: secrets; query parameters that hold one are left out.
        named: secrets of the path by their names, which take their places there.
    """
    parts = urlsplit(address)
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    kept = [(name, value) for name, value in pairs if value not in hidden]
    path = parts.path
    for name, value in (named or {}).items():
        for form in (quote(value, safe=""), quote(value), value):
            path = path.replace(form, f"${{secret:{name}}}") if form else path
    if path == parts.path and len(kept) == len(pairs):
        return address
    query = parts.query if len(kept) == len(pairs) else urlencode(kept)
    return urlunsplit(parts._replace(path=path, query=query))


def full_url(request: PageRequest) -> str:
    """The address with its query."""
    if not request.query:
        return request.url
    parts = urlsplit(request.url)
    query = "&".join(part for part in (parts.query, urlencode(request.query)) if part)
    return urlunsplit(parts._replace(query=query, fragment=""))


def shown_address(request: PageRequest) -> str:
    """The address as people may see it: secrets stay names, and what is named like one is hidden."""
    begin, query = _shown_url(request.url)
    shown = "&".join((*query, *(_shown_pair(name, value) for name, value in request.query)))
    return f"{begin}?{shown}" if shown else begin


@functools.lru_cache(maxsize=256)
def _shown_url(url: str) -> tuple[str, tuple[str, ...]]:
    """An address without its query, and that. Most pages are asked for at one address."""
    parts = urlsplit(url)
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    begin = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment=""))
    return begin, tuple(_shown_pair(name, value) for name, value in pairs)


def _shown_pair(name: str, value: str) -> str:
    return f"{quote(name)}={_shown(name, value)}"


def _shown(name: str, value: str) -> str:
    if REFERENCE.fullmatch(value):
        return value
    return HIDDEN if looks_secret(name) or REFERENCE.search(value) else quote(value)


def looks_secret(name: str) -> bool:
    """Whether a parameter or header is named as secrets are."""
    return _SECRET_NAME.search(name) is not None
