"""One slice, page by page: what is asked for next, and what a page that came means for that. Values in, values out."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from millstream.connectors.http.paging.answered import refuse_more_named
from millstream.connectors.http.paging.page_request import PageRequest, for_slice, request_of
from millstream.connectors.http.paging.pages import FetchedPage
from millstream.connectors.http.paging.paginators import (
    Paginator,
    Token,
    first_token,
    is_address,
    next_token,
    page_request,
    paginator_of,
    token_ahead,
)
from millstream.connectors.http.paging.stops import StopRules, ending, stops_of
from millstream.connectors.http.paging.windows import (
    PageWindow,
    WindowEdge,
    behind,
    is_full,
    known_records,
    moved_edge,
    next_cut,
    window_of,
)
from millstream.errors import StepFailed

_LAST_TOKENS = 3
MOST_RESETS = 3


class SliceState(msgspec.Struct, frozen=True, omit_defaults=True):
    """How far one slice has come: a JSON value inside positions."""

    name: str = "0"
    """What it is called as a partition."""
    of: dict[str, Any] = {}
    """The values that make it."""
    token: Any = None
    pages: int = 0
    records: int = 0
    seen: dict[str, str] = {}
    """Hashes of tokens by the number of their page: the last few, and those of pages 1, 2, 4, 8 and so on.

    So a token that comes again is noticed at once or, after a long round, within as many pages again.
    """
    body: str = ""
    """Digest of the last page that had records."""
    resets: int = 0
    since: tuple[int, int] = (0, 0)
    """Pages and records since the slice started again inside its window."""
    cut: WindowEdge | None = None
    edge: WindowEdge | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class PagingPlan:
    """What the options say about the pages of a slice."""

    request: PageRequest
    paginator: Paginator
    stop: StopRules
    window: PageWindow | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class PageOutcome:
    """What a page means: how far the slice is now, `None` at its end, and why; and which of its records came before."""

    state: SliceState | None
    why: str = ""
    skip: tuple[int, ...] = ()


def paging_of(options: Mapping[str, Any]) -> PagingPlan:
    """The plan that checked options describe."""
    paginator = paginator_of(options["paginator"])
    return PagingPlan(
        request_of(options), paginator, stops_of(options["stop"], paginator), window_of(options["window"])
    )


def begun(plan: PagingPlan, name: str, values: Mapping[str, Any]) -> SliceState:
    """A slice before its first page."""
    return SliceState(name=name, of=dict(values), token=first_token(plan.paginator))


def next_request(plan: PagingPlan, state: SliceState) -> PageRequest:
    """The request for the next page of a slice."""
    sliced = request = for_slice(plan.request, state.of)
    if plan.window is not None:
        request = behind(plan.window, request, state.cut)
    request = page_request(plan.paginator, request, state.token, is_first=state.since[0] == 0)
    refuse_more_named(plan.request, state.of, sliced, request)
    return request


def requests_ahead(plan: PagingPlan, state: SliceState) -> list[PageRequest]:
    """The requests for the pages behind the next one, if they are to be asked early; none before a first page has come."""
    token, requests = state.token, list[PageRequest]()
    left = plan.stop.max_pages - state.pages - 1
    for _ in range(min(plan.paginator.ahead, left) if state.since[0] else 0):
        token = token_ahead(plan.paginator, token)
        requests.append(next_request(plan, msgspec.structs.replace(state, token=token)))
    return requests


def after_page(
    plan: PagingPlan, state: SliceState, page: FetchedPage, address: Callable[[str], str] = str
) -> PageOutcome:
    """What a page means for its slice. `address` makes of a next address one that may be asked and stored.

    1. A page that came before is none.  2. Count, and leave out what came before.  3. The rules end the slice, or the next token
    is a new one.  4. Where the window is full, start again behind its edge.
    """
    # Step 1. A page that came before is none
    is_same = bool(page.records) and page.digest == state.body and state.since[0] > 0
    if is_same:
        return _repeated(plan, state, "the same page came twice", skip=tuple(range(len(page.records))))
    # Step 2. Count, and leave out what came before
    window = plan.window
    skip = tuple(known_records(window, state.cut, page.records)) if window is not None else ()
    counted = _counted(plan, state, page)
    # Step 3. The rules end the slice, or the next token is a new one
    token = next_token(plan.paginator, state.token, page)
    if token is not None and is_address(plan.paginator, plan.request):
        token = address(token)
    pages, records = counted.since
    why = ending(plan.stop, plan.paginator, page, token, since=counted.since, records=counted.records)
    if why is not None:
        return PageOutcome(None, why, skip)
    hashed = _hash(token)
    if hashed in counted.seen.values():
        return _repeated(plan, counted, "the next page is called as one that came before", skip=skip)
    if counted.pages >= plan.stop.max_pages:
        return _too_many(plan, skip)
    # Step 4. Where the window is full, start again behind its edge
    if window is not None and is_full(window, pages=pages, records=records):
        return PageOutcome(split(plan, counted), "a full window", skip)
    return PageOutcome(msgspec.structs.replace(counted, token=token), "", skip)


def _counted(plan: PagingPlan, state: SliceState, page: FetchedPage) -> SliceState:
    count = len(page.records)
    window = plan.window
    number = state.pages + 1
    return msgspec.structs.replace(
        state,
        pages=number,
        records=state.records + count,
        seen=_remembered(state.seen, number, _hash(state.token)),
        body=page.digest if count else state.body,
        since=(state.since[0] + 1, state.since[1] + count),
        edge=state.edge if window is None else moved_edge(window, state.edge, page.records),
    )


def split(plan: PagingPlan, state: SliceState) -> SliceState:
    """The slice starts again behind the last value that came."""
    assert plan.window is not None
    cut = next_cut(plan.window, state.cut, state.edge)
    token = first_token(plan.paginator)
    return msgspec.structs.replace(state, token=token, seen={}, body="", since=(0, 0), cut=cut, edge=cut)


def reset(plan: PagingPlan, state: SliceState) -> SliceState:
    """The slice starts again from its beginning.

    Raises:
        StepFailed: (HTTP-024) it has done so too often.
    """
    if state.resets < MOST_RESETS:
        return msgspec.structs.replace(begun(plan, state.name, state.of), resets=state.resets + 1)
    msg = f"the server has asked to start over more than {MOST_RESETS} times"
    raise StepFailed(
        msg, code="HTTP-024", found=f"page {state.pages + 1}", hint="correct the action 'reset' in on_status="
    )


def _remembered(seen: Mapping[str, str], page: int, hashed: str) -> dict[str, str]:
    numbered = {**seen, str(page): hashed}
    return {name: each for name, each in numbered.items() if _is_kept(int(name), page)}


def _is_kept(page: int, newest: int) -> bool:
    return page > newest - _LAST_TOKENS or page & (page - 1) == 0


def _hash(token: Token) -> str:
    return hashlib.blake2b(msgspec.json.encode(token), digest_size=8).hexdigest()


def _repeated(plan: PagingPlan, state: SliceState, why: str, *, skip: tuple[int, ...]) -> PageOutcome:
    if plan.stop.repeat_ends:
        return PageOutcome(None, why, skip)
    hint = "correct paginator=: the API may not know its parameter; or end there: stop={'on_repeat': 'end'}"
    if plan.paginator.kind in ("cursor", "link") and not plan.paginator.empty_ends:
        hint += "; if the last page names the next one by empty text: 'empty_ends': True in paginator="
    raise StepFailed(why, code="HTTP-020", found=f"page {state.pages + 1}", hint=hint)


def _too_many(plan: PagingPlan, skip: tuple[int, ...]) -> PageOutcome:
    if plan.stop.max_pages_ends:
        return PageOutcome(None, "the most pages", skip)
    msg = f"a slice has more than {plan.stop.max_pages} pages"
    hint = "raise 'max_pages' in stop=, or end there: 'on_max_pages': 'end'"
    raise StepFailed(msg, code="HTTP-021", hint=hint)
