"""The sources that need nothing outside pass the source contract."""

import json

import pytest
from tests.unit.connectors.sources.source_contract import SourceContract
from tests.unit.connectors.sources.source_under_test import SourceUnderTest

import millstream as ms
from millstream.model.connector import source_declaration
from millstream.model.schema import schema_of

ROWS = [{"n": number, "user": f"u{number % 3}"} for number in range(23)]
SCHEMA = schema_of("n long, user string")


class TestMemory(SourceContract):
    @pytest.fixture
    def source(self):
        source = SourceUnderTest()
        source.spec, source.schema, source.rows = ms.memory(ROWS, partition_by="user"), SCHEMA, lambda: ROWS
        return source


class FilesUnderTest(SourceUnderTest):
    def __init__(self, root, **options):
        self.place, self.folder = root / "in", root / "log"
        self.place.mkdir()
        self.folder.mkdir()
        self.schema, self._rows = SCHEMA, []
        self.spec = ms.files(str(self.place), format="json", **options)
        self.is_bounded = not options.get("watch")
        for first in range(0, 23, 6):
            self._write(ROWS[first : first + 6])

    def rows(self):
        return list(self._rows)

    def add(self, count):
        self._write([{"n": 1000 + len(self._rows) + number, "user": "late"} for number in range(count)])

    def _write(self, rows):
        name = f"part-{len(self._rows):05}.json"
        self._rows += rows
        beside = self.place.parent / name
        beside.write_text("".join(json.dumps(row) + "\n" for row in rows))
        beside.rename(self.place / name)


class TestFiles(SourceContract):
    @pytest.fixture
    def source(self, tmp_path):
        return FilesUnderTest(tmp_path)


class TestWatchedFiles(SourceContract):
    @pytest.fixture
    def source(self, tmp_path):
        return FilesUnderTest(tmp_path, watch=True)


class TestDatagen(SourceContract):
    @pytest.fixture
    def source(self, tmp_path):
        source = SourceUnderTest()
        fields = {"n": {"kind": "sequence"}, "user": {"kind": "choice", "values": ["a", "b"]}}
        source.spec, source.schema, source.folder = ms.datagen(fields=fields, rows=40, seed=7), SCHEMA, tmp_path
        source.rows = lambda: _whole(source)
        return source


class TestPacedDatagen(TestDatagen):
    @pytest.fixture
    def source(self, tmp_path):
        source = SourceUnderTest()
        fields = {"n": {"kind": "sequence"}, "user": {"kind": "choice", "values": ["a", "b"]}}
        spec = ms.datagen(fields=fields, rows=40, seed=7, rate=100_000.0)
        source.spec, source.schema, source.folder = spec, SCHEMA, tmp_path
        source.rows = lambda: _whole(source)
        return source


class TestNexmark(SourceContract):
    @pytest.fixture
    def source(self, tmp_path):
        source = SourceUnderTest()
        spec = ms.nexmark(events=60)
        source.spec, source.folder = spec, tmp_path
        declared = source_declaration(spec)
        source.schema = schema_of(declared.schema({**_defaults(declared), **spec.options}))
        source.rows = lambda: _whole(source)
        return source


def _defaults(declared):
    return {name: option.default for name, option in declared.options.items() if not option.is_required}


def _whole(source):
    """All rows of a source that makes them itself, read in one stretch."""
    from tests.unit.connectors.sources.source_under_test import Opened

    opened = Opened(source, folder=source.folder)
    position, rows, advance = opened.initial(), [], None
    while advance is None or not advance.finished:
        advance = opened.advance(position, 10**6)
        rows += opened.read(position, advance.position)
        position = advance.position
    return rows
