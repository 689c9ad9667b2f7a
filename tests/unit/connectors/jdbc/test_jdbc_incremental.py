"""Sources without an end: new and changed rows are read by a column that grows."""

import time

import pytest

import millstream as ms
from millstream.errors import InvalidStep

PATIENCE = 20


def table(database):
    database.execute(
        f"CREATE TABLE t (id {database.long} PRIMARY KEY, v {database.long} NOT NULL, name {database.text})"
    )
    database.execute("CREATE INDEX t_v ON t (v)")
    return database


class Follower:
    """Reads what there is until it has caught up."""

    def __init__(self, opened):
        self.opened, self.at = opened, opened.initial()

    def read(self, credit=100):
        rows, until = [], time.monotonic() + PATIENCE
        while True:
            advance = self.opened.advance(self.at, credit)
            if advance.position != self.at:
                rows += self.opened.read(self.at, advance.position)
                self.at = advance.position
            elif advance.drained:
                assert not advance.finished
                return rows
            assert time.monotonic() < until, "it never catches up"


@pytest.mark.parametrize("credit", [1, 4, 100])
def test_new_rows_are_read_as_they_come(database, open_source, credit):
    table(database)
    follower = Follower(open_source(ms.jdbc_table(database.url, "t", incremental="v", poll="0s")))
    assert follower.read(credit) == []
    for number in range(3):
        database.insert("t", [(number * 10 + place, number * 10 + place, "x") for place in range(7)])
        assert [row["id"] for row in follower.read(credit)] == [number * 10 + place for place in range(7)]


def test_a_changed_row_is_read_again(database, open_source):
    table(database)
    database.insert("t", [(1, 1, "a"), (2, 2, "b"), (3, 3, "c")])
    follower = Follower(open_source(ms.jdbc_table(database.url, "t", incremental="v", poll="0s")))
    assert [row["name"] for row in follower.read()] == ["a", "b", "c"]
    database.execute("UPDATE t SET v = 4, name = 'B' WHERE id = 2")
    assert follower.read() == [{"id": 2, "v": 4, "name": "B"}]


def test_rows_of_one_moment_are_told_apart_by_the_primary_key(database, open_source):
    table(database)
    database.insert("t", [(number, 7, "x") for number in range(40)])
    opened = open_source(ms.jdbc_table(database.url, "t", incremental="v", poll="0s", chunk_rows=5))
    follower = Follower(opened)
    assert [row["id"] for row in follower.read(10)] == list(range(40))
    assert [column[0] for column in follower.at["key"]] == ["v", "id"]
    # Of the same moment, and behind what was read.
    database.insert("t", [(40, 7, "late")])
    assert [row["id"] for row in follower.read()] == [40]


def test_a_query_is_followed_by_its_column_alone(database, open_source):
    table(database)
    database.insert("t", [(number, number // 3, "x") for number in range(9)])
    query = "SELECT id, v FROM t WHERE name = 'x'"
    follower = Follower(open_source(ms.jdbc_query(database.url, query, incremental="v", poll="0s")))
    assert len(follower.read(1)) == 9
    assert [column[0] for column in follower.at["key"]] == ["v"]


def test_another_owner_goes_on_where_the_position_is(database, open_source, tmp_path):
    table(database)
    database.insert("t", [(number, number, "x") for number in range(10)])
    spec = ms.jdbc_table(database.url, "t", incremental="v", poll="0s", chunk_rows=3)
    first = Follower(open_source(spec, folder=tmp_path / "log"))
    first.read(4)
    database.insert("t", [(number, number, "x") for number in range(10, 15)])
    second = Follower(open_source(spec, folder=tmp_path / "log", token=2))
    second.at = first.at
    assert [row["id"] for row in second.read()] == list(range(10, 15))


def test_it_says_when_asking_again_is_of_use(database, open_source):
    table(database)
    opened = open_source(ms.jdbc_table(database.url, "t", incremental="v", poll="1h"))
    follower = Follower(opened)
    follower.read()
    before = time.time() * 1000
    advance = opened.advance(follower.at, 10)
    assert before + 3_500_000 < advance.not_before <= time.time() * 1000 + 3_600_000
    assert advance.lag == 0
    # Until then the database is left alone.
    database.insert("t", [(1, 1, "x")])
    assert opened.advance(follower.at, 10).position == follower.at


def test_a_bound_settles_before_it_is_read_up_to(database, open_source):
    table(database)
    database.insert("t", [(1, 1, "a"), (5, 5, "e")])
    opened = open_source(ms.jdbc_table(database.url, "t", incremental="v", poll="0s", settle="1h"))
    start = opened.initial()
    advance = opened.advance(start, 10)
    while not advance.not_before:
        advance = opened.advance(start, 10)
    assert advance.position == start
    assert not advance.drained, "rows wait"
    assert advance.not_before > time.time() * 1000 + 3_000_000


def test_rows_that_become_visible_late_are_read_where_a_bound_settles(database, open_source, monkeypatch):
    table(database)
    database.insert("t", [(1, 1, "a"), (5, 5, "e")])
    opened = open_source(ms.jdbc_table(database.url, "t", settle="2h", key="v"))
    start = opened.initial()
    advance = opened.advance(start, 10)
    assert advance.position == start
    assert advance.not_before > time.time() * 1000 + 7_000_000
    # Its number was given before that of the last row, and it was committed behind it.
    database.insert("t", [(3, 3, "late"), (9, 9, "beyond the bound")])
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 3 * 3600)
    while not opened.advance(start, 10).finished:
        pass
    end = opened.advance(start, 10).position
    assert [row["id"] for row in opened.read(start, end)] == [1, 3, 5]


def test_a_null_that_comes_later_is_refused(database, open_source):
    database.execute(f"CREATE TABLE t (v {database.long})")
    database.insert("t", [(1,)])
    follower = Follower(open_source(ms.jdbc_table(database.url, "t", incremental="v", poll="0s")))
    follower.read()
    database.insert("t", [(None,)])
    with pytest.raises(InvalidStep, match="JDBC-034"):
        follower.read()
        follower.read()
