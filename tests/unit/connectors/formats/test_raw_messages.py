"""Messages that are the value of one column."""

import pyarrow as pa
import pytest
from tests.unit.connectors.formats.messages import check_neighbours, opened, writing

from millstream.connectors.formats.decode import BadMessage
from millstream.model.schema import schema_of


@pytest.mark.parametrize(
    ("kind", "values"), [("binary", [b"", b"\xff\x00", b"x"]), ("string", [b"", "ünï".encode(), b"x"])]
)
def test_values_come_as_they_are_and_go_as_they_came(kind, values):
    schema = schema_of(f"value {kind}")
    (part,) = opened("raw", schema).decode([*values, None])
    assert part.taken == range(4)
    assert part.rows.schema == schema.arrow
    written = writing("raw", schema)(part.rows)
    assert written.type == pa.binary()
    assert written.to_pylist() == [*values, None]


def test_a_message_without_a_value_is_bad_where_the_column_may_not_be_null():
    first, bad, last = opened("raw", schema_of("value binary not null")).decode([b"a", None, b"b"])
    assert (first.taken, last.taken) == (range(1), range(2, 3))
    assert bad == BadMessage(1, b"", bad.error)
    assert "null value" in bad.error


def test_bytes_that_are_no_text_are_bad_messages():
    block = [b"text"] * 500 + [b"\xff"] + [None, b"more"]
    found = check_neighbours(opened("raw", schema_of("value string")), block)
    assert [index for index, what in found.items() if what == "bad"] == [500]
