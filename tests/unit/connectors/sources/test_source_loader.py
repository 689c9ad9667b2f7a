"""Functions of users as sources pass the source contract, whatever they promise."""

import contextlib

import pytest
from tests.unit.connectors.sources.source_contract import SourceContract
from tests.unit.connectors.sources.source_under_test import SourceUnderTest

import millstream as ms
from millstream.model.schema import schema_of

SCHEMA = schema_of("n long, user string")


class LoaderUnderTest(SourceUnderTest):
    """Rows in a list, which a function reads in pages of five; the position is how many were read."""

    def __init__(self, folder, **options):
        self.folder, self.schema = folder, SCHEMA
        self.is_bounded = options.get("poll") is None
        self.content = [{"n": number, "user": f"u{number % 3}"} for number in range(23)]
        self.is_away, self._is_logged = False, not options.get("replayable")
        looks = {"positions": self.look} if options.pop("looks", False) else {}
        self.spec = ms.loader(self.load, **options, **looks)

    def load(self, start, ctx):
        at = start or 0
        while at < (end := ctx.end or len(self.content)):
            if self.is_away:
                raise ConnectionError("nobody answers")
            rows = self.content[at : min(at + 5, end)]
            at += len(rows)
            yield rows, at

    def look(self, start, ctx):
        return ((len(rows), position) for rows, position in self.load(start, ctx))

    def rows(self):
        return list(self.content)

    def add(self, count):
        self.content += [{"n": 1000 + number, "user": "late"} for number in range(count)]

    def away(self):
        # What the driver has logged is read whether or not the outside is there.
        return None if self._is_logged else self._away()

    @contextlib.contextmanager
    def _away(self):
        self.is_away = True
        try:
            yield
        finally:
            self.is_away = False


class TestReplayable(SourceContract):
    @pytest.fixture
    def source(self, tmp_path):
        return LoaderUnderTest(tmp_path, replayable=True)


class TestChecked(SourceContract):
    @pytest.fixture
    def source(self, tmp_path):
        return LoaderUnderTest(tmp_path, replayable=True, check=True)


class TestLookedUp(SourceContract):
    @pytest.fixture
    def source(self, tmp_path):
        return LoaderUnderTest(tmp_path, replayable=True, looks=True)


class TestPolled(SourceContract):
    @pytest.fixture
    def source(self, tmp_path):
        return LoaderUnderTest(tmp_path, replayable=True, poll="1ms")


class TestResumable(SourceContract):
    @pytest.fixture
    def source(self, tmp_path):
        return LoaderUnderTest(tmp_path, resumable=True)


class TestPromisingNothing(SourceContract):
    @pytest.fixture
    def source(self, tmp_path):
        return LoaderUnderTest(tmp_path)


class TestResumablePolled(SourceContract):
    @pytest.fixture
    def source(self, tmp_path):
        return LoaderUnderTest(tmp_path, resumable=True, poll="5ms")
