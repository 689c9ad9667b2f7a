"""Two streams keyed by a double and a float: rows meet, and share state, whatever form their keys came in."""

from pathlib import Path

from tests.golden.float_oracle import grouped, plain, rows_as_they_came

import millstream as ms

FOLDER = Path(__file__).parent
SCHEMA = "k double, f float, v double, n long, at long"


class Both(ms.CoProcessFunction):
    left = ms.ListState(int)
    right = ms.ListState(int)

    def process_left(self, row, ctx):
        self.left.add(row["n"])
        yield from ({"k": ctx.key[0], "f": ctx.key[1], "a": row["n"], "b": other} for other in self.right.get())

    def process_right(self, row, ctx):
        self.right.add(row["n"])
        yield from ({"k": ctx.key[0], "f": ctx.key[1], "a": other, "b": row["n"]} for other in self.left.get())


def expected():
    left, right = (grouped(rows_as_they_came(FOLDER / side), "k", "f") for side in ("left", "right"))
    pairs = [(a, b) for key, rows in left.items() for a in rows for b in right.get(key, ())]
    # A join gives both rows as they came, and null has no partner; state is kept under the one form.
    equal = [{"k": a["k"], "f": b["f"], "a": a["n"], "b": b["n"]} for a, b in pairs if a["k"] is not None]
    return {
        "joined": equal,
        "within": [pair for pair in equal if abs(pair["a"] - pair["b"]) <= 5],
        "connected": [{"k": plain(a["k"]), "f": plain(a["f"]), "a": a["n"], "b": b["n"]} for a, b in pairs],
    }


def job():
    job = ms.Job("float-keys-joined")
    left, right = (
        job.source(side, ms.files(str(FOLDER / side), format="parquet"), schema=SCHEMA).event_time("at")
        for side in ("left", "right")
    )
    keyed = left.key_by("k", "f"), right.key_by("k", "f")
    short = {"k": "k", "f": "r_f", "a": "n", "b": "r_n"}
    keyed[0].join(keyed[1], prefix="r_", id="join").select(**short, id="joined-short").sink(
        "joined", ms.collect("joined")
    )
    keyed[0].join(keyed[1], within=("-5s", "5s"), prefix="r_", id="interval").select(**short, id="within-short").sink(
        "within", ms.collect("within")
    )
    keyed[0].connect(keyed[1]).process(Both, schema="k double, f float, a long, b long", id="both").sink(
        "connected", ms.collect("connected")
    )
    return job
