"""A table of a real server with logical decoding, and owners that are closed at the end."""

import pytest
from tests.unit.connectors.sources.cdc_under_test import CdcUnderTest
from tests.unit.connectors.sources.source_under_test import Opened


@pytest.fixture
def make_source(logical_postgres, tmp_path):
    """Makes tables that are dropped at the end, with their slots."""
    made = []

    def make(**options):
        folder = tmp_path / f"source-{len(made)}"
        folder.mkdir()
        made.append(CdcUnderTest(options.pop("server", logical_postgres), folder, **options))
        return made[-1]

    yield make
    for each in made:
        each.dispose()


@pytest.fixture
def open_owner(make_source):
    """Opens owners of sources; it closes them before tables and slots go."""
    opened = []

    def open_one(source, **options):
        opened.append(Opened(source, **options))
        return opened[-1]

    yield open_one
    for each in opened:
        each.close()
