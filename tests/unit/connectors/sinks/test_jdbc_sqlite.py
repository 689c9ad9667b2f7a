"""The `jdbc` sink on SQLite passes the sink contract."""

import pytest
from tests.unit.connectors.sinks.contract import SinkContract
from tests.unit.connectors.sinks.databases import MODES, SqliteUnderTest


class TestSqlite(SinkContract):
    @pytest.fixture(params=MODES)
    def sink(self, request, tmp_path):
        found = SqliteUnderTest(f"sqlite:///{tmp_path}/target.db", mode=request.param)
        yield found
        found.close()
