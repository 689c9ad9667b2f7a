import pytest
from tests.unit.connectors.sinks.contract import SinkContract

from millstream.connectors.files.reader import published_files, read_files
from millstream.connectors.files.sink import FilesCommitter, FilesWriter
from millstream.connectors.files.spec import DECLARATION, files
from millstream.connectors.files.store import LISTS
from millstream.model.connector import checked_options
from millstream.records.codecs import batch_to_rows


class FilesUnderTest:
    """A directory of files."""

    can_truncate = True

    def __init__(self, path, **options):
        self.path = path
        given = files(path, **options).options
        self.options = checked_options(DECLARATION.sink.options, given, step="out", name="files")

    def writer(self, task, schema):
        return FilesWriter(self.options, schema, task)

    def committer(self, context):
        return FilesCommitter(self.options, context)

    def visible(self, schema):
        return batch_to_rows(read_files(self.path)) if (self.path / LISTS).exists() else []

    def staged(self):
        return len(self._staged())

    def lose_staged(self):
        self._staged()[0].unlink()
        return True

    def _staged(self):
        listed = {self.path / file.path for file in published_files(self.path)}
        return sorted(path for path in self.path.rglob("part-*") if path not in listed)


class TestParquet(SinkContract):
    @pytest.fixture
    def sink(self, tmp_path):
        return FilesUnderTest(tmp_path / "out")


class TestRollingJson(SinkContract):
    @pytest.fixture
    def sink(self, tmp_path):
        return FilesUnderTest(tmp_path / "out", format="json", max_rows_per_file=5_000)


class TestArrow(SinkContract):
    @pytest.fixture
    def sink(self, tmp_path):
        return FilesUnderTest(tmp_path / "out", format="arrow", compression="zstd")
