"""The latest row of each key: of those of one instant the last to come, as in Flink; the earliest, the first to come."""

import millstream as ms

LAST_BY = {"latest": ["k"], "earliest": ["k"], "most": ["k"]}


def inputs():
    return {"in": [{"k": f"k{n % 3}", "at": n * 7 % 5 * 1000, "v": n % 4, "n": n} for n in range(45)]}


def expected():
    groups = [[row for row in inputs()["in"] if row["k"] == key] for key in ("k0", "k1", "k2")]
    latest = [max(rows, key=lambda row: (row["at"], row["n"])) for rows in groups]
    earliest = [min(rows, key=lambda row: (row["at"], row["n"])) for rows in groups]
    most = [max(rows, key=lambda row: (row["v"], -row["n"])) for rows in groups]
    made = {"latest": latest, "end": latest, "earliest": earliest, "most": most}
    return {sink: [{"k": row["k"], "n": row["n"]} for row in rows] for sink, rows in made.items()}


def job():
    job = ms.Job("sql-latest-row")
    rows = job.source("in", ms.memory([]), schema="k string, at long, v long, n long").event_time("at", max_delay="1m")
    text = "SELECT k, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY {}) AS rn FROM stream) WHERE rn = 1"
    rows.sql(text.format("at DESC"), id="latest-of").sink("latest", ms.collect("latest"))
    rows.sql(text.format("at DESC"), id="end-of", emit="end").sink("end", ms.collect("end"))
    rows.sql(text.format("at"), id="earliest-of").sink("earliest", ms.collect("earliest"))
    rows.sql(text.format("v DESC"), id="most-of").sink("most", ms.collect("most"))
    return job
