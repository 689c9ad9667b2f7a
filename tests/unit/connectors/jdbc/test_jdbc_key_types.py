"""Every type that a database orders can be a key: whatever its values are, each row is read once, however small ranges are."""

import random
import sqlite3

import pytest

import millstream as ms
from millstream.connectors.collect.sink import clear, collected

TEXTS = ["", "a", "A", "b", "a b", "a'b", 'a"b', "a\\b", "\\", "é",
         "e\u0301", "ß", "Z", "z", "10", "9", "😀", "\t", "\n", "%", "a ", "\uffff"]  # fmt: skip
TIMES = ["-infinity", "infinity", "0044-03-15 BC", "2024-01-01", "1969-12-31 23:59:59.999999", "10000-01-01"]
NUMBERS = ["NaN", "Infinity", "-Infinity", "0", "1.10", "-5", "99999999999999999999.99", "0.0001"]
KEYS = {
    "smallint": ["-32768", "32767", "0"],
    "bigint": ["-9223372036854775808", "9223372036854775807", "0"],
    "text": TEXTS,
    'text COLLATE "C"': TEXTS,
    'text COLLATE "pg_c_utf8"': TEXTS,
    "varchar(9)": TEXTS,
    "char(5)": TEXTS,
    "name": TEXTS,
    '"char"': ["a", "b", "", "~"],
    "uuid": ["00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"],
    "bytea": ["\\x", "\\x00", "\\xff", "\\x5c27"],
    "boolean": ["t", "f"],
    "double precision": [*NUMBERS, "-0", "5e-324", "1e308", "0.1"],
    "real": ["NaN", "Infinity", "-Infinity", "-0", "0.1", "123456.79"],
    "numeric": [*NUMBERS, "1e20"],
    "date": ["-infinity", "infinity", "0044-03-15 BC", "2024-01-01", "10000-01-01"],
    "timestamp": TIMES,
    "timestamptz": TIMES,
    "time": ["00:00", "24:00", "12:30:00.000001"],
    "timetz": ["00:00+02", "24:00-05"],
    "interval": ["1 day", "24 hours", "1 mon", "30 days", "-1 day", "0"],
    "inet": ["10.0.0.1", "10.0.0.0/8", "::1"],
    "int[]": ["{}", "{1}", "{NULL}", "{2,NULL}", "{{1,2},{3,4}}"],
    "text[]": ["{}", "{a}", '{a,"b,c"}', '{NULL,"NULL"}', '{"\\\\"}'],
    "jsonb": ["1", '"a"', "{}", '{"a":1}', "[1,2]", "null"],
    "money": ["1.5", "-3"],
    "bit(4)": ["0101", "1111"],
    "int4range": ["[1,5)", "empty", "(,3)"],
    "pg_lsn": ["0/0", "F/FF"],
}


def read_ids(url, key, rng):
    """The numbers of all rows of table `t`, through a job."""
    clear("keys")
    job = ms.Job("keys", rows_per_epoch=rng.choice([1, 3, 100]), parallelism=rng.choice([1, 2]))
    spec = ms.jdbc_table(url, "t", key=key, nulls="read", chunk_rows=rng.choice([1, 2, 5, 100]))
    job.source("in", spec, schema="id long").sink("out", ms.collect("keys"))
    job.run(local=True)
    return sorted(row["id"] for row in collected("keys"))


@pytest.mark.parametrize("kind", KEYS)
def test_any_type_of_postgresql_is_a_key(postgres_db, kind):
    rng = random.Random(kind)
    name = rng.choice(["k", "K 0", 'k"0', "k'0", "k\\0", "k%0", "order", "k.0"])
    quoted = '"' + name.replace('"', '""') + '"'
    postgres_db.execute(f"CREATE TABLE t ({quoted} {kind}, id bigint)")
    values = [None, *KEYS[kind], *rng.choices(KEYS[kind], k=5)]
    cast = kind.partition(" COLLATE")[0]
    marks = ", ".join(f"(${number + 1}::text::{cast}, {number})" for number in range(len(values)))
    postgres_db.execute(f"INSERT INTO t VALUES {marks}", values)
    assert read_ids(postgres_db.url, [name], rng) == list(range(len(values)))


MIXED = [None, 0, 1, -1, 1.0, 1.5, 2**53 + 1, float(2**53), 2**63 - 1, -(2**63), 1e308, float("inf"), 5, 5.0, "5", "", "a", "A",
         "b", "a ", "é", "10", "9", b"", b"a", b"\0", "\0x", "a\0b"]  # fmt: skip


@pytest.mark.parametrize("seed", range(15))
def test_sqlite_keeps_any_value_in_any_key(tmp_path, seed):
    rng = random.Random(seed)
    kinds = ["", "INTEGER", "TEXT", "REAL", "NUMERIC", "BLOB", "TEXT COLLATE NOCASE", "TEXT COLLATE RTRIM"]
    columns = [f"k{number} {rng.choice(kinds)}" for number in range(rng.choice([1, 2]))]
    with sqlite3.connect(tmp_path / "in.db") as database:
        database.execute(f"CREATE TABLE t ({', '.join(columns)}, id INTEGER)")
        rows = [[*(rng.choice(MIXED) for _ in columns), number] for number in range(30)]
        database.executemany(f"INSERT INTO t VALUES ({', '.join('?' * (len(columns) + 1))})", rows)
    assert read_ids(f"sqlite:///{tmp_path}/in.db", [f"k{number}" for number in range(len(columns))], rng) == list(
        range(30)
    )
