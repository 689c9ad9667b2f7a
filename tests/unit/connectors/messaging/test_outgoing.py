"""Rows that become messages: which addresses are refused where the row still can be."""

import pyarrow as pa
import pytest

from millstream.connectors.messaging.outgoing import MessageRoles, RowEncoder
from millstream.connectors.nats.sink import NatsWriter
from millstream.connectors.rabbitmq.sink import RabbitWriter
from millstream.contract.sink import SinkTask
from millstream.errors import StepFailed
from millstream.model.schema import schema_of

SCHEMA = schema_of("id long, to string")
TASK = SinkTask(job="job", lineage="one", step="out", epoch=0, task="0-0", attempt="a")


def batch(*addresses):
    return pa.record_batch({"id": pa.array(range(len(addresses)), pa.int64()), "to": pa.array(addresses, pa.string())})


def test_messages_keep_their_addresses():
    rows = RowEncoder({}, SCHEMA, MessageRoles("to", {}), format="json", step="out", code="X-1")
    assert rows.encode(batch("a", "b.c")).column("address").to_pylist() == ["a", "b.c"]


@pytest.mark.parametrize(
    ("writer", "option", "address"),
    [
        (RabbitWriter, "routing_key_field", "k" * 256),
        (RabbitWriter, "routing_key_field", "\u00e9" * 128),
        (RabbitWriter, "routing_key_field", None),
        (NatsWriter, "subject_field", "a..b"),
        (NatsWriter, "subject_field", "a" * 1025),
    ],
)
def test_an_address_that_no_broker_takes_fails_its_row(writer, option, address, tmp_path):
    opened = writer({option: "to", "headers": {}, "format": "json"}, SCHEMA, TASK)
    with pytest.raises(StepFailed, match=r"-021.*no message can be sent to"):
        opened.write(batch("good", address))
