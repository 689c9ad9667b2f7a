"""Messages that are one record of csv."""

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.unit.connectors.formats.messages import check_neighbours, opened, outcomes, writing
from tests.unit.connectors.formats.schemas import batches
from tests.unit.connectors.written_values import KINDS, cells

from millstream.model.schema import schema_of

ORDERS = schema_of("id long not null, name string, at timestamp")


def test_a_good_block_is_one_batch():
    (part,) = opened("csv", ORDERS).decode([f'{n},"a, ""b""",1714566600000'.encode() for n in range(3000)])
    assert part.taken == range(3000)
    assert part.rows.schema == ORDERS.arrow
    assert part.rows.slice(2999).to_pylist()[0]["name"] == 'a, "b"'


def test_a_record_may_end_its_line_and_hold_line_breaks_in_quotes():
    block = [b"1,a,\n", b'2,"b\nc\r\n",\r\n', b"3,d,"]
    (part,) = opened("csv", ORDERS).decode(block)
    assert part.rows.column("name").to_pylist() == ["a", "b\nc\r\n", "d"]


@pytest.mark.parametrize(
    ("message", "error"),
    [
        (b"", "0 records of csv where one was expected"),
        (b"1,a,\n2,b,", "2 records of csv where one was expected"),
        (b"1,a", "2 csv columns where 3 were expected"),
        (b"x,a,", "column 'id' has a value of another type"),
        (b",a,", "column 'id' is null or missing"),
        (b"1,\xff,", "not UTF-8"),
        (b"1,a,yesterday", "column 'at' has a value of another type"),
        (None, "null value"),
    ],
)
def test_bad_messages(message, error):
    block = [b"0,a,"] * 300 + [message] + [b"9,z,2024-05-01T00:00:00Z"]
    _, bad, after = opened("csv", ORDERS).decode(block)
    assert bad.index == 300
    assert error in bad.error
    assert after.taken == range(301, 302)


@pytest.mark.parametrize("pair", [[b'1,"a', b'b",'], [b'1,"a,', b'",'], [b"1,a,", b""], [b'1,a,"', b'"']])
@pytest.mark.parametrize("two", [b"3,c,\n4,d,", b"3,c,\r4,d,"])
def test_messages_that_would_make_one_record_together(pair, two):
    """With two records in another message there are as many records as messages in all."""
    check_neighbours(opened("csv", ORDERS), [b"0,z,", *pair, two, b"5,y,"])
    found = check_neighbours(opened("csv", ORDERS), [b"0,z,", two])
    assert found[1] == "bad"


@pytest.mark.parametrize("other", [b"2,b,", b"bad", b'2,"b\nc",'])
def test_a_byte_order_mark_belongs_to_the_message_wherever_it_stands(other):
    """Arrow takes one away at the beginning of what it reads."""
    marked = schema_of("name string, n long, at timestamp")
    messages, mark = opened("csv", marked), "\ufeff".encode()
    for value in (mark + b"a,1,", mark + b'"a",1,', mark + mark + b"a,1,", mark, mark + b'"a,b",1'):
        check_neighbours(messages, [value, other])
        check_neighbours(messages, [other, value])
    assert outcomes(messages, [mark + b"a,1,"]) == {0: repr({"name": "\ufeffa", "n": 1, "at": None})}


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
def test_another_delimiter(delimiter):
    (part,) = opened("csv", ORDERS, delimiter=delimiter).decode([delimiter.join(["1", "a,b", ""]).encode()])
    assert part.rows.column("name").to_pylist() == ["a,b"]
    assert writing("csv", ORDERS, delimiter=delimiter)(part.rows).to_pylist() == [
        f'1{delimiter}"a,b"{delimiter}'.encode()
    ]


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_a_message_means_the_same_next_to_any_other(data):
    columns = data.draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=3))
    schema = schema_of({f"c{place}": kind for place, kind in enumerate(columns)})
    records = st.tuples(*(cells for _ in columns)).map(",".join).map(str.encode)
    pieces = st.sampled_from([b'"', b'a"', b'"a', b'""', b",", b"", b"\n", b"a\nb", b"\r", b"\xff", None, b"1,2,3,4"])
    check_neighbours(opened("csv", schema), data.draw(st.lists(records | pieces, max_size=5)))


@given(batches(depth=0))
@settings(max_examples=200, deadline=None)
def test_what_is_written_is_read_back(made):
    schema, batch = made
    written = writing("csv", schema)(batch)
    assert len(written) == batch.num_rows
    found = list(opened("csv", schema).decode(written.to_pylist()))
    assert len(found) == (batch.num_rows > 0)
    for part in found:
        assert repr(part.rows.to_pylist()) == repr(batch.to_pylist())


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_a_damaged_message_leaves_the_others_as_they_were(data):
    schema, batch = data.draw(batches(depth=0, min_rows=2))
    block = writing("csv", schema)(batch).to_pylist()
    place = data.draw(st.integers(0, len(block) - 1))
    damaged = bytearray(block[place])
    assume(damaged)
    damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    messages = opened("csv", schema)
    before = outcomes(messages, block)
    after = check_neighbours(messages, [*block[:place], bytes(damaged), *block[place + 1 :]])
    assert {**after, place: None} == {**before, place: None}
