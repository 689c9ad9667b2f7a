"""The http source passes the source contract, with one slice and with several at once."""

import pytest
from tests.servers.http import serving
from tests.unit.connectors.http.apis import SCHEMA, pages_of, rows
from tests.unit.connectors.sources.source_contract import SourceContract
from tests.unit.connectors.sources.source_under_test import SourceUnderTest

import millstream as ms

TABLE = rows(23)


class HttpUnderTest(SourceUnderTest):
    def __init__(self, folder, url, **options):
        self.folder, self.schema = folder, SCHEMA
        self.spec = ms.http(url, records="items", paginator={"type": "page"}, allow_private=True, **options)

    def rows(self):
        return TABLE


class TestOneSlice(SourceContract):
    @pytest.fixture
    def source(self, tmp_path):
        with serving(pages_of(TABLE, 4)) as api:
            yield HttpUnderTest(tmp_path, f"{api.url}/items")


class TestSlices(SourceContract):
    @pytest.fixture
    def source(self, tmp_path):
        tables = {name: TABLE[start::3] for start, name in enumerate(("a", "b", "c"))}

        def answer(asked):
            return pages_of(tables[asked.path[1:]], 3)(asked)

        with serving(answer) as api:
            slices = {"type": "list", "name": "part", "values": list(tables)}
            yield HttpUnderTest(tmp_path, f"{api.url}/${{slice:part}}", slices=slices)
