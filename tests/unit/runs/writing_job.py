"""A job of each mode over its real connector, whose sinks write in every way; also as a program that a test can kill."""

import sqlite3
import sys
from collections import Counter
from pathlib import Path

from tests.unit.runs.inputs import SCHEMA

import millstream as ms

KEYSET = {"type": "keyset", "field": "id", "param": "since_id"}


def connector(mode, address):
    """What a job of that mode reads: a folder of files, an API, or a table."""
    if mode == "STREAMING":
        return ms.files(address, format="json")
    if mode == "BATCH_ROLLER":
        return ms.http(f"{address}/items", records="items", paginator=KEYSET, allow_private=True, ahead_bytes=2000)
    return ms.jdbc_table(f"sqlite:///{address}", "items", key="id", chunk_rows=2)


def job_of(mode, address, place, carry, **options):
    place = Path(place)
    job = ms.Job("writes", rows_per_epoch=2, mode=mode, carry=carry, **options)
    rows = job.source("rows", connector(mode, address), schema=SCHEMA)
    database = f"sqlite:///{place}/out.db"
    rows.sink("all", ms.files(place / "all", write="replace", partition_by="k"))
    rows.sink("table", ms.jdbc(database, table="whole", write="replace"))
    rows.sink("latest", ms.jdbc(database, table="latest", write="upsert", keys=["id"]))
    rows.sink("added", ms.files(place / "added", write="append"))
    sums = rows.key_by("k").aggregate(total=ms.sum("n"), emit="end", id="sums")
    sums.sink("totals", ms.jdbc(database, table="totals", mode="upsert", keys=["k"], write="replace"))
    return job


def seen(place):
    """What readers see of the sinks that replace: each whole by itself."""
    files = ms.read_files(place / "all").to_pylist() if (place / "all/_millstream").exists() else []
    return {
        "all": Counter((row["id"], row["k"], row["n"]) for row in files),
        "table": Counter(selected(place, "whole", "id, k, n")),
        "totals": dict(selected(place, "totals", "k, total")),
    }


def selected(place, table, columns):
    if not (place / "out.db").exists():
        return []
    database = sqlite3.connect(place / "out.db", timeout=30)
    try:
        there = database.execute("SELECT count(*) FROM sqlite_master WHERE name = ?", (table,)).fetchone()[0]
        return database.execute(f"SELECT {columns} FROM {table}").fetchall() if there else []
    finally:
        database.close()


def expected(rows, read):
    """What they must see: the rows of the run, and the sums over all that its state has read."""
    whole = Counter((row["id"], row["k"], row["n"]) for row in rows)
    sums = Counter()
    for row in read:
        sums[row["k"]] += row["n"]
    return {"all": whole, "table": whole, "totals": dict(sums)}


NOTHING = expected([], [])

if __name__ == "__main__":
    given_mode, given_address, given_place, given_carry = sys.argv[1:]
    job = job_of(given_mode, given_address, given_place, given_carry)
    job.run(local=True, checkpoint=f"{given_place}/checkpoint", run_id="killed")
