import pytest
from tests.unit.connectors.sinks.contract import SinkContract

from millstream.connectors.collect.sink import CollectCommitter, CollectWriter, clear, collected
from millstream.connectors.collect.spec import DECLARATION, collect
from millstream.model.connector import checked_options


class CollectUnderTest:
    """Rows kept in this process."""

    can_truncate = True

    def __init__(self, name):
        self.name = name
        self.options = checked_options(DECLARATION.sink.options, collect(name).options, step="out", name="collect")

    def writer(self, task, schema):
        return CollectWriter(self.options, schema, task)

    def committer(self, context):
        return CollectCommitter(self.options, context)

    def visible(self, schema):
        return collected(self.name)

    def staged(self):
        return 0

    def lose_staged(self):
        return False


class TestCollect(SinkContract):
    @pytest.fixture
    def sink(self, request):
        yield CollectUnderTest(request.node.nodeid)
        clear(request.node.nodeid)
