"""APIs that let nobody turn pages for ever: after so many the slice starts again behind the last value of a sorted field.

Records at that value come again. Those that came before are known by their key and left out.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec

from millstream.connectors.http.nested import Fields, above_zero, filled_text, nested
from millstream.connectors.http.paging.page_request import PLACES, PageRequest, TokenPlace, with_token
from millstream.connectors.http.paging.paths import MISSING, Steps, found_at, steps_of
from millstream.errors import StepFailed
from millstream.model.connector import Option

FIELDS: Fields = {
    "field": Option(kind=(str,), doc="the field by which the API sorts its records", check=steps_of),
    "param": Option(kind=(str,), doc="the parameter that asks for records from a value of it on", check=filled_text),
    "in": Option(kind=(str,), default="query", choices=PLACES[:-1], doc="where that value goes"),
    "key": Option(kind=(str,), doc="the field that tells records of one value apart", check=steps_of),
    "pages": Option(kind=(int, type(None)), default=None, doc="pages after which to start again", check=above_zero),
    "records": Option(kind=(int, type(None)), default=None, doc="records after which to start again", check=above_zero),
}


@dataclasses.dataclass(frozen=True, slots=True)
class PageWindow:
    """How far pages can be turned, and how to go on behind them."""

    field: Steps
    param: str
    place: TokenPlace
    key: Steps
    pages: int | None
    records: int | None


class WindowEdge(msgspec.Struct, frozen=True, omit_defaults=True):
    """The last value of the sorted field, and the keys that came with it."""

    value: Any = None
    keys: list[str] = []


def window_of(value: Any) -> PageWindow | None:
    """Read the option `window`.

    Raises:
        ValueError: says what was expected.
    """
    if value is None:
        return None
    fields = nested(FIELDS, value, what="window")
    return PageWindow(**{"place" if name == "in" else name: field for name, field in fields.items()})


def is_full(window: PageWindow, *, pages: int, records: int) -> bool:
    """Whether so many pages or records since the last start are all that may be asked for."""
    by_pages = window.pages is not None and pages >= window.pages
    return by_pages or (window.records is not None and records >= window.records)


def behind(window: PageWindow, request: PageRequest, cut: WindowEdge | None) -> PageRequest:
    """The request for pages from the last value on."""
    return request if cut is None else with_token(request, window.place, window.param, cut.value)


def known_records(window: PageWindow, cut: WindowEdge | None, records: Sequence[Any]) -> list[int]:
    """Which records of a page came before the slice started again."""
    if cut is None:
        return []
    known = set(cut.keys)
    return [
        number
        for number, record in enumerate(records)
        if found_at(record, window.field) == cut.value and _key(window, record) in known
    ]


def moved_edge(window: PageWindow, edge: WindowEdge | None, records: Sequence[Any]) -> WindowEdge | None:
    """The edge behind the records of a page."""
    if not records:
        return edge
    last = _value(window, records[-1])
    keys = [_key(window, record) for record in records if found_at(record, window.field) == last]
    return WindowEdge(last, [*edge.keys, *keys] if edge is not None and edge.value == last else keys)


def next_cut(window: PageWindow, cut: WindowEdge | None, edge: WindowEdge | None) -> WindowEdge | None:
    """Where the slice starts again.

    Raises:
        StepFailed: (HTTP-023) it has come no further since it started the last time.
    """
    if edge is None or cut is None or edge.value != cut.value:
        return edge
    msg = "more records have one value of the sorted field than the API shows at once"
    hint = "sort by a field with more values, or cut the input into slices="
    raise StepFailed(msg, code="HTTP-023", found=f"{'.'.join(window.field)} = {edge.value!r}", hint=hint)


def _value(window: PageWindow, record: Any) -> Any:
    value = found_at(record, window.field)
    if isinstance(value, (str, int, float)) and not isinstance(value, bool):
        return value
    msg = "a record has no value in the sorted field"
    hint = "correct 'field' in window="
    raise StepFailed(msg, code="HTTP-022", found=repr(value)[:200], known=".".join(window.field), hint=hint)


def _key(window: PageWindow, record: Any) -> str:
    key = found_at(record, window.key)
    text = b"" if key is MISSING else msgspec.json.encode(key)
    return hashlib.blake2b(text, digest_size=6).hexdigest()
