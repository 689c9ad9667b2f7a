"""The `kafka` sink passes the sink contract on a real broker."""

import pytest
from tests.unit.connectors.kafka.sink_under_test import KafkaUnderTest
from tests.unit.connectors.sinks.contract import SinkContract

pytestmark = pytest.mark.kafka


class TestKafkaSink(SinkContract):
    @pytest.fixture
    def sink(self, kafka, tmp_path):
        sink = KafkaUnderTest(kafka, tmp_path)
        yield sink
        sink.close()
