"""Steps keyed by a double: both zeros are one key and all NaNs are one, and results show the one form of each."""

import itertools
from pathlib import Path

from tests.golden.float_oracle import grouped, name_of, place_of, read_rows

import millstream as ms

FOLDER = Path(__file__).parent / "in"
LAST_BY = {"totals": ["k"], "last": ["k"], "best": ["k", "rank_number"], "sql": ["k"]}
NAMES = {0.0: "zero", "nan": "none", 1.5: "more"}
TABLE = [{"key": -0.0, "name": "zero"}, {"key": float("nan"), "name": "none"}, {"key": 1.5, "name": "more"}]
SCHEMA = "k double, f float, v double, n long, at long"


class Number(ms.ProcessFunction):
    seen = ms.ValueState(int)

    def process(self, row, ctx):
        self.seen.update((self.seen.value() or 0) + 1)
        yield {"k": ctx.key[0], "n": row["n"], "number": self.seen.value()}


def listed(key, window, rows):
    yield {"k": key["k"], "start": window.start, "numbers": [row["n"] for row in rows]}


def best(rows):
    return sorted(rows, key=lambda row: (place_of(row["v"]), -row["n"]), reverse=True)[:3]


def bounds(rows):
    values = sorted((row["v"] for row in rows if row["v"] is not None), key=place_of)
    return {"k": rows[0]["k"], "least": values[0] if values else None, "most": values[-1] if values else None}


def running(groups):
    for rows in groups.values():
        total = 0
        for number, row in enumerate(rows, 1):
            total += row["n"]
            yield {"k": row["k"], "n": row["n"], "total": total, "number": number}


def windows(groups, size):
    for rows in groups.values():
        for start in sorted({row["at"] // size * size for row in rows}):
            yield start, [row for row in rows if row["at"] // size * size == start]


def sliding(groups):
    """Windows of ten seconds that begin every two."""
    for rows in groups.values():
        for start in range(-8000, rows[-1]["at"] + 1, 2000):
            found = [row for row in rows if start <= row["at"] < start + 10_000]
            if found:
                yield found


def sessions(groups, gap):
    for rows in groups.values():
        session = []
        for row in rows:
            if session and row["at"] > session[-1]["at"] + gap:
                yield session
                session = []
            session.append(row)
        yield session


def expected():
    groups = grouped(read_rows(FOLDER), "k")
    rows = list(running(groups))
    totals = [{"k": r[0]["k"], "n": len(r), "total": sum(row["n"] for row in r)} for r in groups.values()]
    return {
        "totals": totals,
        "sql": totals,
        "running": [{"k": r["k"], "n": r["number"], "total": r["total"]} for r in rows],
        "reduced": [{"k": r["k"], "n": r["total"]} for r in rows],
        "numbered": [{"k": r["k"], "n": r["n"], "number": r["number"]} for r in rows],
        "first": [{"k": r[0]["k"], "n": r[0]["n"]} for r in groups.values()],
        "last": [{"k": r[-1]["k"], "n": r[-1]["n"]} for r in groups.values()],
        "best": [
            {"k": row["k"], "n": row["n"], "rank_number": rank}
            for rows in groups.values()
            for rank, row in enumerate(best(rows), 1)
        ],
        "distinct": [{"k": r[0]["k"]} for r in groups.values()],
        "windows": [{"k": r[0]["k"], "n": len(r)} for _, r in windows(groups, 10_000)],
        "listed": [
            {"k": r[0]["k"], "start": start, "numbers": [row["n"] for row in r]} for start, r in windows(groups, 10_000)
        ],
        "looked": [
            {"n": row["n"], "name": NAMES[name_of(row["k"])[0]]} for row in read_rows(FOLDER) if row["k"] is not None
        ],
        "bounds": [bounds(r) for r in groups.values()],
        "sliding": [bounds(r) for r in sliding(groups)],
        "sessions": [{"k": r[0]["k"], "n": len(r)} for r in sessions(groups, 3000)],
        "pairs": [{"k": a["k"], "a": a["n"], "b": b["n"]} for r in groups.values() for a, b in itertools.pairwise(r)],
    }  # fmt: skip


def job():
    job = ms.Job("float-keys")
    rows = job.source("in", ms.files(str(FOLDER), format="parquet"), schema=SCHEMA).event_time("at")
    keyed = rows.key_by("k")
    # Which of both zeros a bound is, is not said: adding zero makes it one.
    parts, short = (
        {"least": ms.min("v"), "most": ms.max("v")},
        {"k": "k", "least": "least + 0.0D", "most": "most + 0.0D"},
    )
    made = {
        "totals": keyed.aggregate(n=ms.count(), total=ms.sum("n"), id="totals-of"),
        "running": keyed.aggregate(n=ms.count(), total=ms.sum("n"), emit="row", id="running-of"),
        "reduced": rows.select("k", "n", id="short").key_by("k").reduce(
            lambda a, b: {"k": b["k"], "n": a["n"] + b["n"]}, id="reduced-of"
        ),
        "numbered": keyed.process(Number, schema="k double, n long, number int", id="numbered-of"),
        "first": keyed.deduplicate(id="first-of").select("k", "n", id="first-short"),
        "last": keyed.deduplicate(keep="last", by="at", id="last-of").select("k", "n", id="last-short"),
        "best": keyed.top_n(3, by="v desc, n", id="best-of").select("k", "n", "rank_number", id="best-short"),
        "distinct": rows.sql("SELECT DISTINCT k FROM stream", id="distinct-of"),
        "sql": rows.sql("SELECT k, COUNT(*) AS n, SUM(n) AS total FROM stream GROUP BY k", id="sql-of"),
        "windows": keyed.window(ms.tumbling("10s")).aggregate(n=ms.count(), id="windows-of").select("k", "n", id="w"),
        "listed": keyed.window(ms.tumbling("10s")).process(
            listed, schema="k double, start long, numbers array<long>", id="listed-of"
        ),
        "looked": rows.lookup(TABLE, on={"k": "key"}, id="looked-of").select("n", "name", id="looked-short"),
        "bounds": keyed.aggregate(**parts, emit="end", id="bounds-of").select(**short, id="bounds-short"),
        "sliding": keyed.window(ms.sliding("10s", "2s")).aggregate(**parts, id="sliding-of").select(
            **short, id="sliding-short"
        ),
        "sessions": keyed.window(ms.session("3s")).aggregate(n=ms.count(), id="sessions-of").select("k", "n", id="s"),
        "pairs": keyed.pattern(ms.pattern.begin("a").next("b")).measures(a="a.n", b="b.n", id="pairs-of"),
    }  # fmt: skip
    for name, stream in made.items():
        stream.sink(name, ms.collect(name))
    return job
