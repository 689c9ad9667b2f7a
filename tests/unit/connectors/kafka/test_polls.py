"""How many messages a poll of the source takes, with a client that only counts."""

import pytest

import millstream as ms
from millstream.connectors.kafka import fetching
from millstream.connectors.kafka.positions import KafkaPartition
from millstream.connectors.kafka.source_spec import SOURCE
from millstream.errors import InvalidStep
from millstream.model.connector import checked_options


class Message:
    def __init__(self, offset):
        self._offset = offset

    def error(self):
        return None

    def offset(self):
        return self._offset


class CountingConsumer:
    """Has a message at every offset."""

    def __init__(self):
        self.asked = []
        self._next = 0

    def assign(self, partitions):
        self._next = partitions[0].offset

    def consume(self, number, *, timeout):
        self.asked.append(number)
        self._next += number
        return [Message(offset) for offset in range(self._next - number, self._next)]


def options_of(**more):
    spec = ms.kafka("t", servers="127.0.0.1:1", start="earliest", **more)
    return checked_options(SOURCE.options, spec.options, step="rows", name="kafka")


def test_a_poll_takes_as_many_messages_as_the_option_says(monkeypatch):
    consumer = CountingConsumer()
    monkeypatch.setattr(fetching, "open_consumer", lambda config, **_: consumer)
    reader = fetching.PartitionReader(options_of(poll_messages=4), {}, step="rows")
    reader.seek(KafkaPartition("t", 0), 0)
    assert [len(messages) for messages in reader.messages(10)] == [4, 4, 2]
    assert consumer.asked == [4, 4, 2]


def test_readers_of_different_polls_are_not_exchanged():
    assert fetching._kind(options_of(), {}) != fetching._kind(options_of(poll_messages=4), {})


@pytest.mark.parametrize("number", [0, -1, 1_000_001, "5", True])
def test_a_number_that_the_client_does_not_take_is_refused(number):
    with pytest.raises(InvalidStep, match=r"CONN-005.*poll_messages"):
        options_of(poll_messages=number)
