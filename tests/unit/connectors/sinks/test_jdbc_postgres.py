"""The `jdbc` sink on PostgreSQL passes the sink contract."""

import pytest
from tests.unit.connectors.sinks.contract import SinkContract
from tests.unit.connectors.sinks.databases import MODES, PostgresUnderTest


class TestPostgres(SinkContract):
    @pytest.fixture(params=MODES)
    def sink(self, request, postgres_url):
        found = PostgresUnderTest(postgres_url, mode=request.param)
        yield found
        found.close()
