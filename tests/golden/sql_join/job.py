"""All pairs of two streams with equal keys, one of them computed, with conditions on one side and on both; and their count."""

from tests.golden.sql_oracle import rows

import millstream as ms

LAST_BY = {"count": ["k"]}


def inputs():
    return {"left": rows(9, 40, keys=["x", "y", None]), "right": rows(10, 40, keys=["X", "Y", "Z", None])}


def pairs():
    given = inputs()
    return [
        (one, other)
        for one in given["left"]
        for other in given["right"]
        if one["k"] is not None and other["k"] is not None and one["k"].upper() == other["k"]
        and one["n"] % 2 == other["n"] % 2 and one["v"] is not None and one["v"] > 0
        and other["v"] is not None and one["v"] < other["v"]
    ]  # fmt: skip


def expected():
    counts = {}
    for one, _ in pairs():
        counts[one["k"]] = counts.get(one["k"], 0) + 1
    return {
        "out": [
            {"k": a["k"], "r_k": b["k"], "v": a["v"], "more": b["v"], "n": a["n"], "m": b["n"]} for a, b in pairs()
        ],
        "count": [{"k": key, "pairs": count} for key, count in counts.items()],
    }


def job():
    job = ms.Job("sql-join")
    schema = "k string, v long, n long, at long"
    streams = {name: job.source(name, ms.memory([]), schema=schema) for name in ("left", "right")}
    conditions = """
        FROM one l JOIN other AS r ON upper(l.k) = r.k AND l.n % 2 = r.n % 2
        WHERE l.v < r.v AND l.v > 0
        """
    named = {"one": streams["left"], "other": streams["right"]}
    job.sql(f"SELECT l.k, r.k AS r_k, l.v, r.v AS more, l.n, r.n AS m {conditions}", id="pairs", **named).sink(
        "out", ms.collect("out")
    )
    job.sql(f"SELECT l.k, COUNT(*) AS pairs {conditions} GROUP BY l.k", id="counts", **named).sink(
        "count", ms.collect("count")
    )
    return job
