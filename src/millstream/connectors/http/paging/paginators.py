"""How an API numbers its pages: which request asks for a page, and what the next one is called.

A token is a JSON value: a page number, an offset, a cursor, an address, the last row's key. It stands in positions.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

from millstream.connectors.http.nested import Fields, above_zero, by_type, filled_text, kept_as_given, storable
from millstream.connectors.http.paging.links import detected, linked
from millstream.connectors.http.paging.page_request import (
    PLACES,
    PageRequest,
    TokenPlace,
    at_address,
    with_token,
    without_token,
)
from millstream.connectors.http.paging.pages import FetchedPage
from millstream.connectors.http.paging.paths import MISSING, Steps, found_at, optional_steps, steps_of
from millstream.errors import StepFailed
from millstream.model.connector import Option

PaginatorKind = Literal["single", "page", "offset", "cursor", "link", "header_link", "keyset", "auto"]
_ADDRESSED = ("link", "header_link", "auto")
"""Those whose tokens are addresses."""
Token = Any

MOST_AHEAD = 16
_TEXT = (str, type(None))


@dataclasses.dataclass(frozen=True, slots=True)
class Paginator:
    """One way of numbering pages; which fields count depends on the kind."""

    kind: PaginatorKind
    param: str = ""
    place: TokenPlace = "query"
    start: Token = None
    by: Literal["limit", "records"] = "limit"
    path: Steps | None = None
    header: str | None = None
    rel: str = "next"
    size: int | None = None
    size_param: str | None = None
    size_place: TokenPlace = "query"
    omit_first: bool = False
    empty_ends: bool = False
    ahead: int = 0


def _place(doc: str) -> Option:
    return Option(kind=(str,), default="query", choices=PLACES, doc=doc)


def _most_ahead(value: int) -> int:
    if not 0 <= value <= MOST_AHEAD:
        msg = f"a number from 0 to {MOST_AHEAD}"
        raise ValueError(msg)
    return value


_SIZE: Fields = {
    "size": Option(kind=(int, type(None)), default=None, doc="records of a full page", check=above_zero),
    "size_param": Option(kind=_TEXT, default=None, doc="the parameter that asks for `size` records", check=filled_text),
    "size_in": _place("where `size_param` goes"),
}
_FIRST: Fields = {
    "omit_first": Option(kind=(bool,), default=False, doc="whether the first page is asked for without the parameter")
}
_AHEAD: Fields = {
    "ahead": Option(
        kind=(int,),
        default=0,
        doc="pages that are asked for before the one in front of them has come; at the end of a slice, in vain",
        check=_most_ahead,
    )
}
_NUMBERED: Fields = {"in": _place("where the number goes"), **_SIZE, **_FIRST, **_AHEAD}
_EMPTY: Fields = {"empty_ends": Option(kind=(bool,), default=False, doc="whether empty text is the end, as null is")}

FIELDS: Mapping[str, Fields] = {
    "single": _SIZE,
    "page": {
        "param": Option(kind=(str,), default="page", doc="the parameter for the number of the page", check=filled_text),
        "start": Option(kind=(int,), default=1, doc="the number of the first page", check=kept_as_given),
        **_NUMBERED,
    },
    "offset": {
        "param": Option(kind=(str,), default="offset", doc="the parameter for the offset", check=filled_text),
        "start": Option(kind=(int,), default=0, doc="the first offset", check=kept_as_given),
        "by": Option(
            kind=(str,),
            default="limit",
            choices=("limit", "records"),
            doc="whether the offset grows by `size` or by the records that came",
        ),
        **_NUMBERED,
        "size": Option(kind=(int,), doc="records of a full page", check=above_zero),
        "size_param": Option(kind=_TEXT, default="limit", doc="the parameter that asks for `size` records"),
    },
    "cursor": {
        "path": Option(
            kind=_TEXT, default=None, doc="where the next cursor stands in the answer", check=optional_steps
        ),
        "header": Option(kind=_TEXT, default=None, doc="the header that holds the next cursor", check=filled_text),
        "param": Option(kind=(str,), default="cursor", doc="the parameter for the cursor", check=filled_text),
        "in": _place("where the cursor goes"),
        "start": Option(
            kind=(str, int, type(None)), default=None, doc="the cursor of the first page", check=kept_as_given
        ),
        **_EMPTY,
        **_SIZE,
    },
    "link": {
        "path": Option(kind=(str,), default="next", doc="where the next address stands in the answer", check=steps_of),
        **_EMPTY,
        **_SIZE,
    },
    "header_link": {
        "rel": Option(kind=(str,), default="next", doc="the relation of the next address in the header `Link`"),
        **_SIZE,
    },
    "auto": _SIZE,
    "keyset": {
        "field": Option(
            kind=(str,), doc="the field of the last record that the next page begins behind", check=steps_of
        ),
        "param": Option(kind=(str,), doc="the parameter for that value", check=filled_text),
        "in": _place("where the value goes"),
        "start": Option(
            kind=(str, int, float, type(None)),
            default=None,
            doc="the value that the first page begins behind",
            check=kept_as_given,
        ),
        **_SIZE,
    },
}


def paginator_of(value: Any) -> Paginator:
    """Read the option `paginator`.

    Raises:
        ValueError: says what was expected.
    """
    kind, fields = by_type(FIELDS, value, what="paginator")
    if kind == "cursor" and (fields["path"] is None) == (fields["header"] is None):
        msg = "paginator 'cursor' with either 'path' or 'header'"
        raise ValueError(msg)
    if kind != "offset" and fields["size_param"] is not None and fields["size"] is None:
        msg = f"paginator {kind!r} whose 'size_param' comes with 'size'"
        raise ValueError(msg)
    renamed = {"in": "place", "size_in": "size_place", "field": "path"}
    return Paginator(kind, **{renamed.get(name, name): field for name, field in fields.items()})  # type: ignore[arg-type]


def first_token(paginator: Paginator) -> Token:
    """The token of the first page; `None` where it has none."""
    return paginator.start


def is_address(paginator: Paginator, request: PageRequest) -> bool:
    """Whether tokens are addresses of pages, which a server gives and which need a look before they are asked."""
    return paginator.kind in _ADDRESSED or (paginator.place == "path" and "${token}" not in request.url)


def page_request(paginator: Paginator, request: PageRequest, token: Token, *, is_first: bool) -> PageRequest:
    """The request for a page."""
    if paginator.size_param is not None:
        request = with_token(request, paginator.size_place, paginator.size_param, paginator.size)
    if token is None or (is_first and paginator.omit_first):
        return without_token(request)
    if paginator.kind in _ADDRESSED:
        return at_address(request, token)
    return with_token(request, paginator.place, paginator.param, token)


def next_token(paginator: Paginator, token: Token, page: FetchedPage) -> Token:
    """What the page behind this one is called; `None` when this is the last.

    Absence is the end; zero, false and empty text are names like others, unless `empty_ends`.
    """
    match paginator.kind:
        case "page":
            return token + 1
        case "offset":
            return token + (len(page.records) if paginator.by == "records" else paginator.size)
        case "cursor" if paginator.header is not None:
            return _named(paginator, page.headers.get(paginator.header.lower()))
        case "cursor" | "link":
            assert paginator.path is not None
            return _named(paginator, found_at(page.document, paginator.path))
        case "header_link":
            return linked(page.headers.get("link", ""), paginator.rel)
        case "auto":
            return detected(page.headers, page.document, is_first=token is None)
        case "keyset":
            return _last_key(paginator, page)
        case _:
            return None


def token_ahead(paginator: Paginator, token: Token) -> Token:
    """What the page behind this one is called, if this one is full and not the last; asked of numbered pages alone."""
    return token + (1 if paginator.kind == "page" else paginator.size)


def _named(paginator: Paginator, found: Any) -> Token:
    if found is MISSING or found is None or (found == "" and paginator.empty_ends):
        return None
    is_name = isinstance(found, str) or (paginator.kind == "cursor" and isinstance(found, (int, float, bool)))
    if is_name:
        return storable(found)
    msg = f"the answer names the next page by something that is no {paginator.kind}"
    raise StepFailed(msg, code="HTTP-022", found=repr(found)[:200], hint="correct 'path' in paginator=")


def _last_key(paginator: Paginator, page: FetchedPage) -> Token:
    """The key of the last record; a page without records has none and is the last."""
    if not page.records:
        return None
    assert paginator.path is not None
    key = found_at(page.records[-1], paginator.path)
    if isinstance(key, (str, int, float)) and not isinstance(key, bool):
        return storable(key)
    msg = "the last record of a page has no key by which to ask for the next page"
    hint = "correct 'field' in paginator=, or use another paginator"
    raise StepFailed(msg, code="HTTP-022", found=repr(key)[:200], hint=hint)
