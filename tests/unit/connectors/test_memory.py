import datetime as dt
import decimal
import itertools
import json

import pytest

from millstream.connectors.memory.source import MemoryEnumerator, MemoryReader
from millstream.connectors.memory.spec import DECLARATION, memory
from millstream.contract.source import BadRecord, SourceContext
from millstream.errors import ExternalFailure, InvalidStep
from millstream.model.connector import checked_options
from millstream.model.schema import schema_of
from millstream.model.time import MIN_TIME
from millstream.records.codecs import batch_to_rows

SCHEMA = schema_of("user string not null, n long")
ids = itertools.count()


def opened(rows, schema=SCHEMA, **options):
    spec = json.loads(json.dumps(memory(rows, **options).options))
    checked = checked_options(DECLARATION.source.options, spec, step="s", name="memory")
    context = SourceContext(step="s", schema=schema, log_dir=None, parallelism=2)
    return MemoryEnumerator(checked, context), MemoryReader(checked, schema)


def steps(enumerator, credit):
    """Every advance until the end, from JSON positions as a restart would give them."""
    position, found = enumerator.initial(), []
    while True:
        advance = enumerator.advance(json.loads(json.dumps(position)), credit)
        found.append((position, advance))
        if advance.finished:
            return found
        assert advance.position != position
        position = advance.position


def read(enumerator, reader, start, end):
    found = []
    for split in enumerator.splits(start, end):
        for part in reader.read(json.loads(json.dumps(split.body))):
            found.extend([part] if isinstance(part, BadRecord) else batch_to_rows(part))
    return found


def everything(enumerator, reader, credit):
    return [
        row for start, advance in steps(enumerator, credit) for row in read(enumerator, reader, start, advance.position)
    ]


ROWS = [{"user": f"u{n % 3}", "n": n} for n in range(10)]


@pytest.mark.parametrize("credit", [1, 3, 7, 100])
def test_every_cut_reads_the_same_rows(credit):
    assert everything(*opened(ROWS), credit) == ROWS


def test_a_reopened_enumerator_gives_equal_splits():
    (first, _), (second, _) = opened(ROWS, partition_by="user"), opened(ROWS, partition_by="user")
    for start, advance in steps(first, 4):
        assert first.splits(start, advance.position) == second.splits(start, advance.position)


def test_an_advance_takes_rows_or_one_mark():
    mark = {"__ms_mark": "watermark", "at": 5}
    enumerator, _ = opened([ROWS[0], ROWS[1], mark, mark, ROWS[2]])
    assert [advance.position["at"] for _, advance in steps(enumerator, 100)] == [2, 3, 4, 5]


def test_watermark_is_stated_from_the_start_and_stays():
    enumerator, _ = opened([ROWS[0], {"__ms_mark": "watermark", "at": 5}, ROWS[1]])
    assert [advance.watermark for _, advance in steps(enumerator, 100)] == [MIN_TIME, 5, 5]
    enumerator, _ = opened(ROWS)
    assert [advance.watermark for _, advance in steps(enumerator, 100)] == [None]


def test_scripted_clock_grows_with_its_marks():
    tick = {"__ms_mark": "clock", "advance": 50}
    enumerator, _ = opened([ROWS[0], tick, ROWS[1], tick])
    assert [advance.now for _, advance in steps(enumerator, 100)] == [0, 50, 50, 100]


def test_eof_ends_the_script():
    enumerator, reader = opened([ROWS[0], {"__ms_mark": "eof"}, ROWS[1]])
    assert everything(enumerator, reader, 100) == ROWS[:1]


def test_empty_script_is_finished_at_once():
    enumerator, _ = opened([])
    advance = enumerator.advance(enumerator.initial(), 10)
    assert (advance.finished, advance.position, advance.lag) == (True, {"at": 0}, 0)


def test_lag_counts_rows_not_marks():
    enumerator, _ = opened([*ROWS[:2], {"__ms_mark": "watermark", "at": 5}, ROWS[2]])
    assert [advance.lag for _, advance in steps(enumerator, 1)] == [2, 1, 1, 0]


def test_no_credit_reads_nothing():
    enumerator, _ = opened(ROWS)
    advance = enumerator.advance({"at": 3}, 0)
    assert (advance.position, advance.finished) == ({"at": 3}, False)


def test_partitions_are_left_out_and_read_later_in_any_cut():
    enumerator, reader = opened(ROWS, partition_by="user")
    position, found = enumerator.initial(), []
    for paused in (["u0"], ["u0"], ["u1", "u2"], [], ["u1"]):
        advance = enumerator.advance_without(json.loads(json.dumps(position)), 2, paused)
        found.append([row["n"] for row in read(enumerator, reader, position, advance.position)])
        position = advance.position
    assert found == [[1, 2], [4, 5], [0, 3], [6, 7], [8, 9]]
    assert (advance.position, advance.finished, advance.lag) == ({"at": 10}, True, 0)


def test_what_is_read_ahead_stands_in_the_position():
    enumerator, _ = opened(ROWS, partition_by="user")
    advance = enumerator.advance_without({"at": 0}, 3, ["u0"])
    assert (advance.position, advance.lag) == ({"at": 0, "ahead": [1, 2, 4]}, 7)
    assert enumerator.advance(advance.position, 1).position == {"at": 3, "ahead": [4]}
    assert enumerator.advance(advance.position, 2).position == {"at": 5}


def test_partitions_are_not_left_out_for_ever():
    """Rows of others may only come behind them: behind a mark, or never."""
    mark = {"__ms_mark": "clock", "advance": 1}
    enumerator, _ = opened([ROWS[0], mark, ROWS[1], ROWS[3]], partition_by="user")
    position, ends = enumerator.initial(), []
    while position["at"] < 4:
        position = enumerator.advance_without(position, 10, ["u0"]).position
        ends.append({name: content for name, content in position.items() if name != "now"})
    assert ends == [{"at": 1}, {"at": 2}, {"at": 3}, {"at": 4}]


def test_abort_mark_fails_once():
    enumerator, reader = opened([ROWS[0], {"__ms_mark": "abort", "id": f"test-{next(ids)}"}, ROWS[1]])
    enumerator.splits({"at": 0}, {"at": 1})
    with pytest.raises(ExternalFailure) as caught:
        enumerator.splits({"at": 1}, {"at": 2})
    assert caught.value.code == "TEST-ABORT"
    assert everything(enumerator, reader, 100) == ROWS[:2]


def test_partitions_keep_the_order_of_rows():
    rows = [{"user": user, "n": n} for n, user in enumerate("aabab")]
    enumerator, reader = opened(rows, partition_by="user")
    assert [(s.partition, s.rows) for s in enumerator.splits({"at": 0}, {"at": 5})] == [
        ("a", 2),
        ("b", 1),
        ("a", 1),
        ("b", 1),
    ]
    assert read(enumerator, reader, {"at": 0}, {"at": 5}) == rows


def test_python_values_come_back_typed():
    schema = schema_of(
        "t timestamp, l timestamp_ntz, d date, m decimal(10,2), b binary, k map<long,string>, f double, "
        "s: struct<x:date>, a array<decimal(4,1)>"
    )
    row = {
        "t": dt.datetime(2024, 5, 1, 12, tzinfo=dt.timezone(dt.timedelta(hours=2))),
        "l": dt.datetime(2024, 5, 1, 12),
        "d": dt.date(2024, 5, 1),
        "m": decimal.Decimal("1.50"),
        "b": b"\x00\xff",
        "k": {1: "one"},
        "f": float("-inf"),
        "s": {"x": dt.date(2024, 5, 2)},
        "a": [decimal.Decimal("1.5"), None],
    }
    nothing = dict.fromkeys(row)
    enumerator, reader = opened([row, nothing, {}], schema)
    assert everything(enumerator, reader, 10) == [row, nothing, nothing]


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"user": 5, "n": 1}, ["'user'", "5 (int)", "string"]),
        ({"user": "a", "n": "x"}, ["'n'", "'x'", "long"]),
        ({"user": "a", "n": 2.5}, ["'n'", "2.5", "long"]),
        ({"n": 1}, ["'user'", "null or missing"]),
        ({"user": "a", "other": 1}, ["other", "known: n, user"]),
    ],
)
def test_a_row_that_does_not_fit_is_a_bad_record_between_good_ones(row, words):
    enumerator, reader = opened([ROWS[0], row, ROWS[1]])
    first, bad, last = everything(enumerator, reader, 100)
    assert (first, last) == (ROWS[0], ROWS[1])
    assert json.loads(bad.raw) == row
    for word in words:
        assert word in bad.error
    assert "row 0" not in bad.error


def test_an_unknown_nested_field_makes_a_bad_record():
    (bad,) = everything(*opened([{"s": {"x": 1, "y": 2}}], schema_of({"s": "struct<x:long>"})), 10)
    assert "unknown fields y; known: x" in bad.error


@pytest.mark.parametrize(
    "mark",
    [
        {"__ms_mark": "watermarks", "at": 1},
        {"__ms_mark": "watermark"},
        {"__ms_mark": "watermark", "at": "1"},
        {"__ms_mark": "eof", "id": "x"},
        {"__ms_mark": ["eof"]},
    ],
)
def test_a_wrong_mark_is_refused_when_the_step_is_built(mark):
    with pytest.raises(InvalidStep) as caught:
        opened([ROWS[0], mark])
    assert "row 1" in str(caught.value)
