"""One test page of a source: what it asks for first, read as a run would read it, and the schema that it suggests."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from millstream.connectors.http.asking.exchange import Exchange
from millstream.connectors.http.decoding import KeptPage, PageDecoder
from millstream.connectors.http.inference import schema_from
from millstream.connectors.http.opening import opened_exchange
from millstream.connectors.http.paging.page_request import shown_address
from millstream.connectors.http.paging.pages import BodyFormat, FetchedPage, kept_records, page_of
from millstream.connectors.http.paging.slices import ParentSlices, children
from millstream.connectors.http.paging.turning import PagingPlan, SliceState, begun, next_request
from millstream.connectors.http.position import beginning, numbered, opened_slice, position_of
from millstream.connectors.http.settings import SourceSettings, settings_of
from millstream.contract.source import BadRecord
from millstream.errors import InvalidSchema
from millstream.model.connector import Options
from millstream.model.schema import Schema
from millstream.model.time import now_ms


class _TestPage(NamedTuple):
    page: FetchedPage
    kept: KeptPage


def sample(options: Options, schema: Schema, limit: int) -> list[pa.RecordBatch | BadRecord | str]:
    """The first page of the first slice: what was asked for, the schema it suggests, and its rows, at most so many.

    Args:
        options: checked options of the source.
        schema: the columns wanted.
        limit: rows at most.
    """
    settings = settings_of(options)
    found = _first_page(settings)
    if found is None:
        return ["nothing to ask for"]
    suggested = schema_from(found.page.records, texts=settings.body.kind == "csv")
    origin, count = found.kept.origin, len(found.page.records)
    taken: list[pa.RecordBatch | BadRecord | str] = [
        f"{origin}: {count} records",
        f"their schema seems to be: {suggested.ddl}",
    ]
    rows = 0
    for part in PageDecoder(settings.body, schema).rows([found.kept]):
        if rows >= limit:
            break
        taken.append(part if isinstance(part, BadRecord) else part.slice(0, limit - rows))
        rows += 0 if isinstance(part, BadRecord) else part.num_rows
    return taken


def infer_schema(options: Options) -> Schema:
    """The schema that the first page of the first slice suggests.

    Raises:
        InvalidSchema: (HTTP-004) the page has no records to tell it from.
    """
    settings = settings_of(options)
    found = _first_page(settings)
    records: Sequence[Any] = () if found is None else found.page.records
    schema = schema_from(records, texts=settings.body.kind == "csv")
    if not len(schema):
        msg = "the first page has no records from which to tell a schema"
        where = None if found is None else found.kept.origin
        raise InvalidSchema(msg, code="HTTP-004", found=where, hint="correct records=, or pass schema=")
    return schema


def _first_page(settings: SourceSettings) -> _TestPage | None:
    """What a run would ask for first; `None` where there is nothing to ask for."""
    with _exchange(settings) as exchange:
        state = _first_slice(settings, exchange)
        return None if state is None else _page(exchange, settings.paging, settings.body, state)


@contextlib.contextmanager
def _exchange(settings: SourceSettings) -> Iterator[Exchange]:
    client, exchange = opened_exchange(
        allowed=settings.allowed,
        limits=settings.limits,
        auth=settings.auth,
        rules=settings.rules,
        rates=settings.rates,
        step=None,
        wait=_pause,
    )
    with contextlib.closing(client):
        yield exchange


def _pause(seconds: float) -> bool:
    time.sleep(seconds)
    return True


def _first_slice(settings: SourceSettings, exchange: Exchange) -> SliceState | None:
    start = beginning(settings, "", now_ms())
    if isinstance(settings.slices, ParentSlices):
        assert settings.parent is not None
        assert settings.parent_body is not None
        parents = _page(exchange, settings.parent, settings.parent_body, begun(settings.parent, "parent", {}))
        values = [] if parents is None else children(settings.slices, parents.page.records[:1])
        return numbered(settings.paging, values[0], start.since) if values else None
    change = opened_slice(settings, start)
    return None if change is None else position_of({"slices": change["slices"]}).slices["0"]


def _page(exchange: Exchange, paging: PagingPlan, body: BodyFormat, state: SliceState) -> _TestPage | None:
    request = next_request(paging, state)
    asked = exchange.ask(request, lambda _, __: None)
    if asked.decision.action != "success":
        return None
    page = page_of(asked.answer, body)
    kept = KeptPage(kept_records(asked.answer.body, body, ()), f"{shown_address(request)} page 1")
    return _TestPage(page, kept)
