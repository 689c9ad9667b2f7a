"""Statements over a stream give what a database gives for the same rows, however the stream is cut into epochs.

What is written otherwise in DuckDB (windows, the place of nulls) stands beside the statement.
"""

import datetime as dt
import math
import random
from collections import Counter

import duckdb
import pyarrow as pa
import pytest

import millstream as ms
from millstream.testing import run_job

START = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
SCHEMA = "k string, v long, d double, b boolean, ts timestamp"
TUMBLED = "time_bucket(INTERVAL '1 second', ts)"
STATELESS = [
    "SELECT * FROM stream",
    "SELECT k, v * 2 AS w FROM stream WHERE v > 0",
    "SELECT k AS name, CASE WHEN v > 3 THEN 'high' WHEN v IS NULL THEN 'none' ELSE 'low' END AS c FROM stream WHERE NOT b",
    "SELECT * EXCEPT (d, ts) FROM stream AS s WHERE s.k IN ('a', 'b') AND v BETWEEN -3 AND 5",
    "SELECT s.k || '!' AS k, coalesce(v, 0) + 1 AS w FROM stream s WHERE k LIKE '%b%' OR v IS NULL",
    "SELECT v FROM (SELECT k, v FROM stream WHERE v > -5) t WHERE t.k <> 'a'",
    "SELECT k, v FROM stream WHERE v < 0 UNION ALL SELECT upper(k) AS k, -v AS v FROM stream WHERE v > 0",
    "WITH a AS (SELECT k, v FROM stream WHERE v > 0), c AS (SELECT k, -v AS v FROM a) SELECT * FROM a UNION ALL SELECT * FROM c",
    "SELECT DISTINCT k FROM stream",
    "SELECT DISTINCT k, v % 3 AS r, b FROM stream WHERE v IS NOT NULL",
    "SELECT DISTINCT * FROM (SELECT k FROM stream UNION ALL SELECT upper(k) AS k FROM stream)",
]
RUNNING = [
    "SELECT k, COUNT(*) AS n FROM stream GROUP BY k",
    "SELECT COUNT(*) AS n, COUNT(v) AS m, COUNT(DISTINCT v) AS u, SUM(v) AS s, MIN(v) AS lo, MAX(d) AS hi FROM stream",
    "SELECT k, AVG(v) AS mean, SUM(v) / COUNT(*) AS other FROM stream GROUP BY k",
    "SELECT upper(k) AS u, v % 2 AS r, COUNT(*) AS n FROM stream GROUP BY upper(k), v % 2",
    "SELECT k, b, SUM(v) FILTER (WHERE v > 0) AS plus, COUNT(*) FILTER (WHERE b) AS n FROM stream GROUP BY 1, 2",
    "SELECT k, SUM(v) AS s FROM stream WHERE v > 0 GROUP BY k HAVING COUNT(*) > 3 AND SUM(v) > 20",
    "SELECT COUNT(*) AS n FROM stream GROUP BY v HAVING n > 2",
    "SELECT b FROM stream GROUP BY b",
    "SELECT MAX(n) AS most, COUNT(*) AS keys FROM (SELECT k, COUNT(*) AS n FROM stream GROUP BY k)",
    "SELECT SUM(v + 1) - MIN(v) * 2 AS x, MAX(k) AS k FROM stream",
    "SELECT k, CASE WHEN SUM(v) > 0 THEN 'plus' ELSE 'minus' END AS sign FROM stream GROUP BY k",
]
WINDOWED = [
    (
        "SELECT k, window_start, SUM(v) AS s FROM TUMBLE(TABLE stream, DESCRIPTOR(ts), INTERVAL '1' SECOND) "
        "GROUP BY k, window_start, window_end",
        f"SELECT k, {TUMBLED} AS window_start, SUM(v) AS s FROM stream GROUP BY 1, 2",
    ),
    (
        "SELECT window.end AS e, COUNT(*) AS n FROM stream WHERE v > 0 GROUP BY window(ts, '1 second') HAVING n > 1",
        f"SELECT {TUMBLED} + INTERVAL '1 second' AS e, COUNT(*) AS n FROM stream WHERE v > 0 GROUP BY 1 HAVING n > 1",
    ),
    (
        "SELECT k, window_start, window_end, COUNT(*) AS n FROM HOP(TABLE stream, DESCRIPTOR(ts), INTERVAL '1' SECOND, "
        "INTERVAL '3' SECOND) GROUP BY window_start, window_end, k",
        f"SELECT k, {TUMBLED} - to_seconds(back) AS window_start, {TUMBLED} - to_seconds(back) + INTERVAL '3 seconds' "
        "AS window_end, COUNT(*) AS n FROM stream, (VALUES (0), (1), (2)) AS t(back) GROUP BY 1, 2, 3",
    ),
    (
        "SELECT k, session_window.start AS s, session_window.end AS e, COUNT(*) AS n FROM stream "
        "GROUP BY k, session_window(ts, '1 second')",
        "SELECT k, min(ts) AS s, max(ts) + INTERVAL '1 second' AS e, COUNT(*) AS n FROM (SELECT *, sum(new) OVER "
        "(PARTITION BY k ORDER BY ts) AS number FROM (SELECT *, (ts > lag(ts) OVER (PARTITION BY k ORDER BY ts) + "
        "INTERVAL '1 second')::INT AS new FROM (SELECT k, date_trunc('milliseconds', ts) AS ts FROM stream))) "
        "GROUP BY k, coalesce(number, 0)",
    ),
]
RANKED = [
    "SELECT k, v, ts, rn FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC{}, ts) AS rn FROM stream) "
    "WHERE rn <= 3",
    "SELECT k, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k, b ORDER BY v{}, ts DESC) AS rn FROM stream) t "
    "WHERE 1 = t.rn AND v > -100",
    "SELECT * FROM (SELECT v, RANK() OVER (PARTITION BY b ORDER BY v DESC{}) AS rn FROM stream WHERE v > 0) WHERE rn < 4",
]
JOINED = [
    "SELECT a.k, a.v, b.v AS w FROM stream a JOIN other b ON a.k = b.k AND a.v < b.v",
    "SELECT k, a.v, b.d FROM stream a JOIN other b USING (k) WHERE a.b AND b.v % 2 = 0",
    "SELECT a.v, b.ts FROM stream a, other b WHERE upper(a.k) = upper(b.k) AND a.v = b.v + 1",
    "WITH c AS (SELECT k, COUNT(*) AS n FROM other GROUP BY k) SELECT a.v, c.n FROM stream a JOIN c ON a.k = c.k",
    "SELECT a.k, COUNT(*) AS n FROM stream a JOIN other b ON a.k = b.k GROUP BY a.k",
    "SELECT a.k, a.ts, b.ts AS other_ts FROM stream a JOIN other b ON a.k = b.k "
    "AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '1' SECOND",
    "SELECT a.k, a.ts, b.ts AS other_ts FROM stream a LEFT JOIN other b ON a.k = b.k "
    "AND b.ts > a.ts - INTERVAL '500' MILLISECOND AND b.ts < a.ts + INTERVAL '1' SECOND AND a.v > b.v",
    "SELECT a.k, b.k AS l, a.ts, b.ts AS other_ts FROM stream a FULL JOIN other b ON a.k = b.k "
    "AND a.ts + INTERVAL '1' SECOND >= b.ts AND b.ts >= a.ts WHERE a.v > 0 OR b.v > 0",
    "SELECT a.v, b.v AS w FROM stream a RIGHT JOIN other b ON a.ts = b.ts AND a.k = b.k",
]


def random_rows(seed, count):
    """Rows within a few seconds, at halves of milliseconds, in random order, with nulls."""
    rng = random.Random(seed)
    rows = []
    for _ in range(count):
        step = rng.choice([rng.randint(0, 12_000), rng.randint(0, 12) * 1000, rng.randint(0, 60)])
        rows.append(
            {
                "k": rng.choice(["a", "b", "abc", None]),
                "v": rng.choice([None, *range(-8, 9)]),
                "d": rng.choice([None, 0.5, -1.25, 3.0]),
                "b": rng.choice([True, False, None]),
                "ts": START + dt.timedelta(microseconds=step * 500),
            }
        )
    return rows


def streamed(text, tables, **options):
    job = ms.Job("equal")
    streams = {name: job.source(name, ms.memory([]), schema=SCHEMA).event_time("ts", max_delay="1h") for name in tables}
    job.sql(text, id="q", **streams, **options).sink("out", ms.collect("out"))
    return run_job(job, tables, rows_per_epoch=17)["out"]


def batch(text, tables):
    with duckdb.connect() as database:
        for name, rows in tables.items():
            kinds = [pa.string(), pa.int64(), pa.float64(), pa.bool_(), pa.timestamp("us")]
            schema = pa.schema(list(zip(rows[0], kinds, strict=True)))
            plain_rows = [row | {"ts": row["ts"].replace(tzinfo=None)} for row in rows]
            database.register(name, pa.Table.from_pylist(plain_rows, schema=schema))
        return database.sql(text).to_arrow_table().to_pylist()


def counted(rows):
    return Counter(tuple((name, plain(value)) for name, value in row.items()) for row in rows)


def plain(value):
    if isinstance(value, float):
        return "nan" if math.isnan(value) else round(value, 9)
    return value.replace(tzinfo=None) if isinstance(value, dt.datetime) else value


def check(text, in_duckdb, seed, names=("stream",), **options):
    tables = {name: random_rows(seed + place, 80) for place, name in enumerate(names)}
    wanted = counted(batch(in_duckdb.replace("* EXCEPT", "* EXCLUDE"), tables))
    assert counted(streamed(text, tables, **options)) == wanted
    assert wanted, "the statement gives no rows to compare"


def numbered(statements):
    return pytest.mark.parametrize("number", range(len(statements)))


SEEDS = pytest.mark.parametrize("seed", [1, 2])


@SEEDS
@numbered(STATELESS)
def test_without_aggregates(number, seed):
    check(STATELESS[number], STATELESS[number], seed)


@SEEDS
@numbered(RUNNING)
def test_aggregates_at_the_end(number, seed):
    check(RUNNING[number], RUNNING[number], seed, emit="end")


@SEEDS
@numbered(WINDOWED)
def test_windows(number, seed):
    check(*WINDOWED[number], seed)


@SEEDS
@numbered(RANKED)
def test_rankings_at_the_end(number, seed):
    text = RANKED[number]
    nulls = " NULLS LAST" if "v DESC" in text else " NULLS FIRST"
    check(text.format(""), text.format(nulls), seed, emit="end")


@SEEDS
@numbered(JOINED)
def test_joins(number, seed):
    options = {"emit": "end"} if "GROUP BY" in JOINED[number] else {}
    check(JOINED[number], JOINED[number], seed, names=("stream", "other"), **options)
