"""From pages of the intake log to rows, in a worker. A record that is bad is named by its page and its number there."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from millstream.connectors.files.columns import checked_nulls
from millstream.connectors.files.text import csv_parts
from millstream.connectors.formats.decode import BadMessage, decoder
from millstream.connectors.http.paging.pages import lines_of
from millstream.connectors.http.paging.paths import raw_records
from millstream.connectors.http.settings import BodyFormat, body_of
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
        return self._pages.rows(
            (body, f"{entry.note['origin']} page {entry.note['page']}", entry.note.get("skip", ()))
            for entry, body in logged
        )

    def close(self) -> None:
        """Nothing is open."""


class PageDecoder:
    """Turns the bodies of pages into rows."""

    def __init__(self, body: BodyFormat, schema: Schema) -> None:
        self._body, self._schema = body, schema
        self._decoder = decoder("json", schema, {"ignore_extra": True}) if body.kind != "csv" else None

    def rows(self, pages: Iterable[tuple[bytes, str, Iterable[int]]]) -> Iterator[pa.RecordBatch | BadRecord]:
        """Rows and bad records of pages, each given as its body, where it came from, and which records to leave out."""
        if self._decoder is None:
            for body, origin, _ in pages:
                yield from self._csv(body, origin)
            return
        texts: list[bytes] = []
        places: list[tuple[str, int]] = []
        for body, origin, skip in pages:
            left_out = set(skip)
            for number, text in enumerate(self._records(body)):
                if number not in left_out:
                    texts.append(text)
                    places.append((origin, number))
            if len(texts) >= _BLOCK:
                yield from self._decoded(texts, places)
                texts, places = [], []
        yield from self._decoded(texts, places)

    def _records(self, body: bytes) -> list[bytes]:
        if not body:
            return []
        return raw_records(body, self._body.records) if self._body.kind == "json" else lines_of(body)

    def _decoded(self, texts: list[bytes], places: list[tuple[str, int]]) -> Iterator[pa.RecordBatch | BadRecord]:
        assert self._decoder is not None
        for part in self._decoder.decode(texts):
            if isinstance(part, BadMessage):
                origin, number = places[part.index]
                yield BadRecord(part.raw, part.error, f"{origin} item {number + 1}")
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
