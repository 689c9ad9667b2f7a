"""What a source decides as values: statements, positions, boundaries found ahead."""

import datetime as dt
import decimal
import json
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.connectors.jdbc.reading.background import Background
from millstream.connectors.jdbc.reading.boundaries import Boundaries, Boundary
from millstream.connectors.jdbc.reading.keys import KeyColumn, decoded, encoded, shown_key
from millstream.connectors.jdbc.reading.mysql_words import MysqlDialect
from millstream.connectors.jdbc.reading.position import KeyPosition
from millstream.connectors.jdbc.reading.postgres import PostgresDialect
from millstream.connectors.jdbc.reading.probe import StatementTimedOut
from millstream.connectors.jdbc.reading.sqlite import SqliteDialect
from millstream.connectors.jdbc.reading.statements import KeyStatements
from millstream.errors import CheckpointRefused

NUMBER = KeyColumn(name="id", type="pg_catalog.int8", nullable=False)
NAME = KeyColumn(name="name", type="pg_catalog.text", collation='"C"')


def statements(dialect, *key):
    return KeyStatements(dialect=dialect, source="t AS q", key=key)


def test_a_range_is_open_below_and_closed_above():
    made = statements(PostgresDialect(), NUMBER).rows(["q.x"], ["5"], ["9"])
    assert made.text == (
        'SELECT q.x FROM t AS q WHERE q."id" > \'5\'::pg_catalog.int8 AND q."id" <= \'9\'::pg_catalog.int8 ORDER BY q."id"'
    )
    assert made.values == ()


def test_the_first_range_has_no_lower_bound():
    made = statements(SqliteDialect(), NUMBER).rows(["*"], None, [9])
    assert made.text == 'SELECT * FROM t AS q WHERE q."id" <= ? ORDER BY q."id"'
    assert made.values == (9,)


def test_rows_are_compared_whole_where_an_index_serves_that():
    made = statements(PostgresDialect(), NUMBER, NAME).boundary(["5", "a'b"], ["9", "c\\"], 100)
    assert "(q.\"id\", q.\"name\" COLLATE \"C\") > ('5'::pg_catalog.int8, 'a''b'::pg_catalog.text)" in made.text
    assert "<= ('9'::pg_catalog.int8, E'c\\\\'::pg_catalog.text)" in made.text
    assert made.text.endswith('q."name" IS NOT NULL ORDER BY q."id", q."name" COLLATE "C" LIMIT 1 OFFSET 99')


def test_rows_are_compared_column_by_column_elsewhere():
    made = statements(MysqlDialect(), NUMBER, KeyColumn(name="b", nullable=False)).rows(["*"], [5, "x"], [9, "y"])
    assert made.text == (
        "SELECT * FROM t AS q WHERE q.`id` >= 5 AND (q.`id` > 5 OR (q.`id` = 5 AND (q.`b` > _utf8mb4 X'78')))"
        " AND q.`id` <= 9 AND (q.`id` < 9 OR (q.`id` = 9 AND (q.`b` <= _utf8mb4 X'79'))) ORDER BY q.`id`, q.`b`"
    )


def test_the_highest_key_is_never_a_null():
    made = statements(SqliteDialect(), KeyColumn(name="a"), NUMBER).last([1, 2])
    assert made.text == (
        'SELECT q."a", q."id" FROM t AS q WHERE (q."a", q."id") > (?, ?) AND q."a" IS NOT NULL'
        ' ORDER BY q."a" DESC, q."id" DESC LIMIT 1'
    )


def test_rows_without_a_key_are_those_with_any_null():
    made = statements(SqliteDialect(), KeyColumn(name="a"), KeyColumn(name="b"), NUMBER).null_rows(["*"])
    assert made.text == 'SELECT * FROM t AS q WHERE (q."a" IS NULL OR q."b" IS NULL)'
    assert statements(SqliteDialect(), NUMBER).has_null().text.endswith("WHERE (1 = 0) LIMIT 1")


# Key values

VALUES = st.one_of(
    st.integers(),
    st.text(),
    st.binary(),
    st.floats(allow_nan=False),
    st.decimals(allow_nan=False, allow_infinity=False),
    st.dates(),
    st.datetimes(),
)


@given(VALUES)
def test_a_key_value_comes_back_from_a_log_as_it_was(value):
    back = decoded(json.loads(json.dumps(encoded(value))))
    assert back == value
    assert type(back) is type(value)


def test_what_cannot_be_compared_exactly_is_no_key_value():
    with pytest.raises(TypeError, match="timedelta"):
        encoded(dt.timedelta(1))


@pytest.mark.parametrize(
    ("value", "literal"),
    [
        ("a'\\\0", "_utf8mb4 X'61275c00'"),
        (b"\x00\xff", "X'00ff'"),
        (decimal.Decimal("1E+3"), "1000"),
        (-5, "-5"),
        (0.5, "0.5e0"),
        (dt.date(2024, 2, 29), "DATE'2024-02-29'"),
        (dt.datetime(2024, 2, 29, 1), "TIMESTAMP'2024-02-29 01:00:00.000000'"),
    ],
)
def test_literals_of_mysql_hold_no_text_that_could_end_them(value, literal):
    assert MysqlDialect().value(NUMBER, encoded(value)).text == literal


def test_a_key_is_shown_to_people():
    assert shown_key((NUMBER, NAME), [5, "a"]) == "id=5, name=a"
    assert shown_key((NUMBER,), None) == "the beginning"


# Positions


def at(*cuts, start=0, **more):
    return KeyPosition(key=(NUMBER,), upper=["99"], at=list(cuts[-1]), cuts=tuple(map(list, cuts)), **more)


def test_ranges_follow_from_positions_alone():
    start = KeyPosition(key=(NUMBER,), upper=["99"])
    first, second = at(["1"], ["2"]), at(["3"], ["4"])
    assert first.ranges_from(start) == [(None, ["1"]), (["1"], ["2"])]
    assert second.ranges_from(first) == [(["2"], ["3"]), (["3"], ["4"])]
    assert second.ranges_from(start) == [(None, ["3"]), (["3"], ["4"])], "several epochs at once"
    assert second.ranges_from(second) == []
    assert start.ranges_from(start) == []


def test_a_position_comes_back_from_a_log_as_it_was():
    position = at(["1"], ["2"], rows=7, is_done=True, has_nulls=True)
    assert KeyPosition.from_json(json.loads(json.dumps(position.to_json())), ("id",), step="in") == position


@pytest.mark.parametrize("names", [("other",), ("id", "name"), ()])
def test_a_position_of_another_key_is_refused(names):
    with pytest.raises(CheckpointRefused, match=r"JDBC-035.*another key"):
        KeyPosition.from_json(at(["1"]).to_json(), names, step="in")


def test_a_position_without_a_key_is_refused():
    with pytest.raises(CheckpointRefused, match="JDBC-035"):
        KeyPosition.from_json({"done": False}, ("id",), step="in")


# Boundaries


class Table:
    """Keys 1 to `rows`; steps above `most` take too long."""

    def __init__(self, rows, most=None):
        self.rows, self.most, self.asked = rows, most, []

    def ask(self, low, high, step):
        self.asked.append(step)
        if self.most is not None and step > self.most:
            raise StatementTimedOut
        first, last = 0 if low is None else low[0], min(self.rows, high[0])
        if first + step <= last:
            return Boundary([first + step], step)
        return Boundary(high, last - first, is_last=True)


def settled(boundaries, background, *take):
    """What is known when the thread has done what it was asked to."""
    boundaries.take(*take)
    background.wait(5)
    return boundaries.take(*take)


def test_boundaries_are_asked_for_as_far_as_two_epochs_go():
    table, background = Table(1000), Background()
    boundaries = Boundaries(table.ask, background)
    taken = settled(boundaries, background, None, [1000], 100, 25)
    background.wait(5)
    assert [each.key for each in taken] == [[25], [50], [75], [100]]
    assert len(table.asked) == 8, "those of this epoch and the next"


def test_boundaries_end_at_the_bound():
    table, background = Table(60), Background()
    boundaries = Boundaries(table.ask, background)
    taken = settled(boundaries, background, None, [60], 1000, 25)
    assert taken == [Boundary([25], 25), Boundary([50], 25), Boundary([60], 10, is_last=True)]
    assert settled(boundaries, background, [50], [60], 1000, 25) == [Boundary([60], 10, is_last=True)]
    assert len(table.asked) == 3


def test_another_beginning_starts_over():
    table, background = Table(1000), Background()
    boundaries = Boundaries(table.ask, background)
    settled(boundaries, background, None, [1000], 50, 25)
    assert settled(boundaries, background, [7], [1000], 50, 25)[0] == Boundary([32], 25)
    assert settled(boundaries, background, [7], [20], 50, 25) == [Boundary([20], 13, is_last=True)]


def test_one_boundary_is_taken_however_small_the_credit():
    background = Background()
    assert settled(Boundaries(Table(100).ask, background), background, None, [100], 3, 25) == [Boundary([25], 25)]


def test_a_step_that_takes_too_long_is_halved_for_good():
    table, background = Table(1000, most=10), Background()
    boundaries = Boundaries(table.ask, background)
    settled(boundaries, background, None, [1000], 40, 80)
    assert [each.rows for each in boundaries.take(None, [1000], 40, 80)] == [10, 10, 10, 10]
    assert table.asked[:4] == [80, 40, 20, 10]
    assert set(table.asked[3:]) == {10}


def test_what_goes_wrong_in_the_background_is_raised_by_the_next_ask():
    background = Background()
    boundaries = Boundaries(Table(10, most=0).ask, background)
    with pytest.raises(StatementTimedOut):
        settled(boundaries, background, None, [10], 4, 4)


def test_something_is_done_last_behind_what_is_under_way():
    background, go, ended, done = Background(), threading.Event(), threading.Event(), []
    background.begin(lambda: (go.wait(5), done.append("work")))
    background.end(lambda: (done.append("last"), ended.set()))
    assert done == []
    go.set()
    assert ended.wait(5)
    assert done == ["work", "last"]
    background.end(lambda: done.append("at once"))
    assert done[-1] == "at once"
