"""Jobs whose keys are doubles in every form, and what they give once the forms are one.

The input is half read by the code that wrote the stored state, and read to its end by the code under test.
"""

import itertools
import math

import numpy as np
import pyarrow as pa

import millstream as ms

BITS = (0x0, 0x8000000000000000, 0x7FF8000000000000, 0xFFF8000000000000, 0x7FF8000000000001, 0x3FF8000000000000)
"""0.0, -0.0, three NaNs and 1.5."""
EVERY = (0, 1, 2, 3, 4, 5)
ONE_EACH = (1, 3, 5)
"""Of each key one form, and none of them the canonical one where there is a choice."""
ROWS = 24
KEPT = ("numbered", "reduced", "ends", "listed", "early", "arrived", "found")
"""Sinks of steps whose state cannot be merged."""
SCHEMA = "form long, n long, at long"
CHANGED = ((0.0, (1, 7)), (math.nan, (4, 10)))


def script(forms):
    """Rows in the order they are read: the first half has these forms, the second half has all."""
    first = [forms[n % len(forms)] for n in range(ROWS // 2)]
    second = [EVERY[n % len(EVERY)] for n in range(ROWS // 2)]
    return [{"form": form, "n": n, "at": n * 1000} for n, form in enumerate(first + second)]


def keyed(batch):
    """Give each row its key: only bits can say which NaN it is."""
    bits = np.array(BITS, np.uint64)[np.asarray(batch.column("form"))]
    return batch.append_column("k", pa.array(bits.view(np.float64)))


def plain(rows):
    """Rows by the one form of their key."""
    groups = {}
    for row in rows:
        key = "zero" if row["form"] in {0, 1} else "nan" if row["form"] in {2, 3, 4} else "other"
        groups.setdefault(key, []).append(row)
    keys = {"zero": 0.0, "nan": math.nan, "other": 1.5}
    return [(keys[name], found) for name, found in groups.items()]


def source(job, forms):
    rows = job.source("in", ms.memory(script(forms)), schema=SCHEMA)
    return rows.map_batches(keyed, schema=f"{SCHEMA}, k double", id="keyed")


def merged_job():
    """Steps whose state is merged where a key was stored in several forms."""
    job = ms.Job("merged", rows_per_epoch=3, parallelism=2, max_parallelism=8)
    rows = source(job, EVERY).event_time("at", max_delay="1h")
    keys = rows.key_by("k")
    hour, parts = ms.tumbling("1h"), {"n": ms.count(), "total": ms.sum("n"), "most": ms.max("n"), "mean": ms.avg("n")}
    made = {
        "totals": keys.aggregate(**parts, values=ms.count_distinct("form"), emit="end", id="totals-of"),
        "running": keys.aggregate(**parts, emit="row", id="running-of"),
        "windows": keys.window(hour).aggregate(**parts, id="windows-of").select("k", *parts, id="windows-short"),
        "sessions": keys.window(ms.session("3s")).aggregate(**parts, id="s-of").select("k", *parts, id="s-short"),
        "best": keys.top_n(3, by="n desc", emit="end", id="best-of").select("k", "n", "rank_number", id="best-short"),
        "changed": keys.top_n(2, by="form desc, n", id="changed-of").select(
            "k", "n", "rank_number", id="changed-short"
        ),
        "last": keys.deduplicate(keep="last", by="n", emit="end", id="last-of").select("k", "n", id="last-short"),
        "first": keys.deduplicate(id="first-of").select("k", "n", id="first-short"),
        "pairs": keys.join(keys, prefix="r_", where="n < r_n", id="pairs-of").select("k", "r_k", "n", "r_n", id="p"),
    }
    for name, stream in made.items():
        stream.sink(name, ms.collect(name))
    return job


def merged_output(read):
    """What the second run gives, which begins behind so many rows."""
    rows = script(EVERY)
    groups = plain(rows)
    best = [(key, sorted(found, key=lambda row: -row["n"])[:3]) for key, found in groups]
    return {
        "totals": [{"k": k, **parts_of(found), "values": len({r["form"] for r in found})} for k, found in groups],
        "running": [
            {"k": k, **parts_of(found[: place + 1])}
            for k, found in groups
            for place, row in enumerate(found)
            if row["n"] >= read
        ],
        "windows": [{"k": k, **parts_of(found)} for k, found in groups],
        "sessions": [{"k": k, **parts_of(session)} for k, found in groups for session in sessions(found)],
        "best": [{"k": k, "n": row["n"], "rank_number": r} for k, found in best for r, row in enumerate(found, 1)],
        # Of zero and NaN the rows of another form come before those that were said last.
        "changed": [{"k": k, "n": n, "rank_number": r} for k, both in CHANGED for r, n in enumerate(both, 1)],
        "last": [{"k": k, "n": found[-1]["n"]} for k, found in groups],
        "first": [],
        "pairs": [
            {"k": came(k, a), "r_k": came(k, b), "n": a["n"], "r_n": b["n"]}
            for k, found in groups
            for a, b in itertools.combinations(found, 2)
            if b["n"] >= read
        ],
    }


def came(key, row):
    """The key of a row as it came, which is what a join gives."""
    return -key if row["form"] == 1 else key


def parts_of(rows):
    """The aggregates of some rows."""
    numbers = [row["n"] for row in rows]
    return {"n": len(rows), "total": sum(numbers), "most": max(numbers), "mean": sum(numbers) / len(rows)}


def sessions(rows):
    """Rows at most three seconds apart."""
    found = [[rows[0]]]
    for before, row in itertools.pairwise(rows):
        if row["at"] > before["at"] + 3000:
            found.append([])
        found[-1].append(row)
    return found


class Number(ms.ProcessFunction):
    """Numbers the rows of a key, and says at the end how many there were."""

    seen = ms.ValueState(int)

    def process(self, row, ctx):
        """Count."""
        self.seen.update((self.seen.value() or 0) + 1)
        ctx.event_timer(60_000)
        yield {"k": ctx.key[0], "n": row["n"], "number": self.seen.value()}

    def on_timer(self, timestamp, ctx):
        """Say it."""
        yield {"k": ctx.key[0], "n": None, "number": self.seen.value()}


def listed(key, window, rows):
    """The numbers of a window."""
    yield {"k": key["k"], "numbers": [row["n"] for row in rows]}


def kept_job(forms=ONE_EACH, only=None):
    """Steps whose state belongs to one form of a key, and cannot be merged with that of another."""
    job = ms.Job("kept", rows_per_epoch=3, parallelism=2, max_parallelism=8)
    untimed = source(job, forms)
    rows = untimed.event_time("at", max_delay="1h")
    keys, numbers = rows.key_by("k"), "k double, numbers array<long>"
    found = ms.pattern.begin("a").where("n < 2").followed_by("b").where("n > 20")
    early = ms.trigger.event_time().early(ms.trigger.count(100))
    made = {
        "numbered": lambda: keys.process(Number, schema="k double, n long, number int", id="numbered-of"),
        "reduced": lambda: rows.select("k", "n", id="short").key_by("k").reduce(added, id="reduced-of"),
        "ends": lambda: keys.aggregate(first=ms.first("n"), last=ms.last("n"), emit="end", id="ends-of"),
        "listed": lambda: keys.window(ms.tumbling("1h")).process(listed, schema=numbers, id="listed-of"),
        "early": lambda: keys.window(ms.tumbling("1h"), trigger=early).process(listed, schema=numbers, id="early-of"),
        "arrived": lambda: keys.deduplicate(keep="last", emit="end", id="arrived-of").select(
            "k", "n", id="arrived-short"
        ),
        "found": lambda: untimed.key_by("k").pattern(found).measures(a="a.n", b="b.n", id="found-of"),
    }
    for name, stream in made.items():
        if only in (None, name):
            stream().sink(name, ms.collect(name))
    return job


def added(a, b):
    """A running sum."""
    return {"k": b["k"], "n": a["n"] + b["n"]}


def kept_output(read):
    """What the second run gives, which begins behind so many rows."""
    groups = plain(script(ONE_EACH))
    lists = [{"k": k, "numbers": [row["n"] for row in found]} for k, found in groups]
    later = [(k, place, found) for k, found in groups for place, row in enumerate(found) if row["n"] >= read]
    return {
        "numbered": [
            *({"k": k, "n": found[place]["n"], "number": place + 1} for k, place, found in later),
            *({"k": k, "n": None, "number": len(found)} for k, found in groups),
        ],
        "reduced": [{"k": k, "n": sum(row["n"] for row in found[: place + 1])} for k, place, found in later],
        "ends": [{"k": k, "first": found[0]["n"], "last": found[-1]["n"]} for k, found in groups],
        "listed": lists,
        "early": lists,
        "arrived": [{"k": k, "n": found[-1]["n"]} for k, found in groups],
        "found": [
            {"k": k, "a": a["n"], "b": b["n"]}
            for k, found in groups
            for a in found
            if a["n"] < 2
            for b in [row for row in found if row["n"] > 20][:1]
        ],
    }
