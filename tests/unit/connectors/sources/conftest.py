"""What the tests of sources have in common."""

import pytest
from tests.unit.connectors.sources.source_under_test import Opened


@pytest.fixture
def open_source(source):
    """Opens owners that are closed at the end, whatever happens."""
    opened = []

    def open_one(**options):
        opened.append(Opened(source, **options))
        return opened[-1]

    yield open_one
    for each in opened:
        each.close()
    source.dispose()
