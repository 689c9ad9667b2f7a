"""A job whose steps fail on some rows until a file says that they are mended, and what it should give."""

from collections import Counter
from pathlib import Path

import millstream as ms
from millstream.inspect.checkpoint import open_view
from millstream.inspect.letters.box import letter_boxes
from millstream.inspect.letters.replaying import ask_replay

SCHEMA = "k string, n long, at long"
STEPS = ("shape", "keep", "split", "sum", "after")


def mended(place):
    return (Path(place) / "mended").exists()


class Sum(ms.ProcessFunction):
    """Counts the rows of each key, and fails on some before it touches its state."""

    total = ms.ValueState(int)

    def __init__(self, place):
        self.place = place

    def process(self, row, ctx):
        if row["n"] % 7 == 0 and not mended(self.place):
            raise ValueError("seven")
        self.total.update((self.total.value() or 0) + row["n"])
        yield {"k": row["k"], "n": row["n"], "time": ctx.timestamp}


def build(place, rows, *, timed=True, dead=None, parallelism=2, fails=True):
    """The job; a file `mended` in its place makes it whole."""
    place = str(place)
    dead = dead or (lambda step: ms.files(f"{place}/dead/{step}", format="json"))

    def letters(step):
        return ms.dead_letter(dead(step))

    def breaks(divisor, row):
        if fails and row["n"] % divisor == 0 and not mended(place):
            row["n"] = -1  # what a function does to its row before it fails does not count
            raise ValueError(f"divisible by {divisor}")

    def shape(row):
        breaks(3, row)
        return {"k": row["k"].upper(), "n": row["n"], "at": row["at"]}

    def keep(row):
        breaks(5, row)
        return row["n"] % 2 == 0 or row["n"] % 3 == 0

    def split(row):
        breaks(4, row)
        return [row, {**row, "n": row["n"] + 1000}]

    def after(row):
        breaks(11, row)
        return {**row, "n": row["n"] * 2}

    job = ms.Job("replayed", parallelism=parallelism, rows_per_epoch=25, carry="state")
    stream = job.source("in", ms.memory(rows), schema=SCHEMA)
    if timed:
        stream = stream.event_time("at", id="time")
    stream = stream.map(shape, schema=SCHEMA, on_error=letters("shape"), id="shape")
    stream = stream.filter(keep, on_error=letters("keep"), id="keep")
    stream = stream.flat_map(split, schema=SCHEMA, on_error=letters("split"), id="split")
    summed = stream.key_by("k").process(
        Sum(place), schema="k string, n long, time long", on_error=letters("sum"), id="sum"
    )
    done = summed.map(after, schema="k string, n long, time long", on_error=letters("after"), id="after")
    done.sink("out", ms.files(f"{place}/out", format="json"))
    done.key_by("k").aggregate(total=ms.sum("n"), n=ms.count(), emit="end", id="totals").sink(
        "totals", ms.files(f"{place}/totals", format="json")
    )
    return job


def expected(rows, *, timed=True):
    """What a job gives that never fails, in plain Python."""
    out = []
    for row in rows:
        if row["n"] % 2 == 0 or row["n"] % 3 == 0:
            for n in (row["n"], row["n"] + 1000):
                out.append((row["k"].upper(), n * 2, row["at"] if timed else None))
    return Counter(out)


def written(place):
    return Counter(tuple(row.values()) for row in ms.read_files(f"{place}/out").to_pylist())


def totals(place):
    """The newest totals of each key."""
    found = {}
    for row in ms.read_files(f"{place}/totals").to_pylist():
        found[row["k"]] = max(found.get(row["k"], (0, 0)), (row["n"], row["total"]))
    return found


def total_of(rows):
    found = {}
    for (k, n, _), times in rows.items():
        count, total = found.get(k, (0, 0))
        found[k] = (count + times, total + n * times)
    return found


def ask(job, place, steps=STEPS):
    """Ask for every letter; per step what became of it."""
    with open_view(Path(place) / "checkpoint") as view:
        boxes = {box.node.id: box for box in letter_boxes(job, view)}
        return {step: ask_replay(boxes[step], [each.letter for each in boxes[step].told()]) for step in steps}


def letters(job, place, steps=STEPS):
    """Per step: its letters and their states."""
    with open_view(Path(place) / "checkpoint") as view:
        return {box.node.id: box.told() for box in letter_boxes(job, view) if box.node.id in steps}
