"""From pages of the intake log to rows, in a worker. A record that is bad is named by its page and its number there."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from millstream.connectors.files.columns import checked_nulls
from millstream.connectors.files.text import csv_parts
from millstream.connectors.formats.decode import BadMessage, decoder
from millstream.connectors.http.paging.pages import BodyFormat, lines_of
from millstream.connectors.http.settings import body_of
from millstream.connectors.intake.reading import read_parts
from millstream.contract.source import BadRecord
from millstream.model.connector import Options
from millstream.model.schema import Schema

_BLOCK = 20_000
"""Records that are decoded at once."""


class HttpReader:
    """Reads pages; nothing is asked of the server again."""

    def __init__(self, options: Options, schema: Schema) -> None:
        self._pages = PageDecoder(body_of(options), schema)

    def read(self, split: Any) -> Iterator[pa.RecordBatch | BadRecord]:
        """The rows of pages of one slice, in the order in which they came."""
        logged = read_parts(Path(split["folder"]), split["parts"])
        return self._pages.rows(KeptPage.of(entry.note, body) for entry, body in logged)

    def close(self) -> None:
        """Nothing is open."""


class KeptPage(NamedTuple):
    """The records of a page as they are kept, where it came from, and the numbers of records that were left out."""

    records: bytes
    origin: str
    skip: Sequence[int] = ()

    @classmethod
    def of(cls, note: Any, records: bytes) -> KeptPage:
        """A page of the log."""
        return cls(records, f"{note['origin']} page {note['page']}", note.get("skip", ()))

    def numbers(self, count: int) -> Iterable[int]:
        """Which records of the page these are, counted from 0."""
        left_out = set(self.skip)
        return (number for number in range(count + len(left_out)) if number not in left_out)


class PageDecoder:
    """Turns the records of pages into rows."""

    def __init__(self, body: BodyFormat, schema: Schema) -> None:
        self._body, self._schema = body, schema
        self._decoder = decoder("json", schema, {"ignore_extra": True}) if body.kind != "csv" else None

    def rows(self, pages: Iterable[KeptPage]) -> Iterator[pa.RecordBatch | BadRecord]:
        """Rows and bad records of pages, in their order."""
        if self._decoder is None:
            for page in pages:
                yield from self._csv(page.records, page.origin)
            return
        texts: list[bytes] = []
        places: list[tuple[KeptPage, int]] = []
        for page in pages:
            lines = lines_of(page.records)
            texts += lines
            places += [(page, number) for number in page.numbers(len(lines))]
            if len(texts) >= _BLOCK:
                yield from self._decoded(texts, places)
                texts, places = [], []
        yield from self._decoded(texts, places)

    def _decoded(self, texts: list[bytes], places: list[tuple[KeptPage, int]]) -> Iterator[pa.RecordBatch | BadRecord]:
        assert self._decoder is not None
        for part in self._decoder.decode(texts):
            if isinstance(part, BadMessage):
                page, number = places[part.index]
                yield BadRecord(part.raw, part.error, f"{page.origin} item {number + 1}")
            else:
                yield part.rows

    def _csv(self, body: bytes, origin: str) -> Iterator[pa.RecordBatch | BadRecord]:
        parts = csv_parts(pa.BufferReader(body), self._schema, header=self._body.header, delimiter=self._body.delimiter)
        number = 0
        for part in parts:
            if isinstance(part, BadRecord):
                yield dataclasses.replace(part, origin=f"{origin} item {number + 1}")
                number += 1
                continue
            number += part.num_rows
            for checked in checked_nulls(part, self._schema):
                is_bad = isinstance(checked, BadRecord)
                yield dataclasses.replace(checked, origin=origin) if is_bad else checked
