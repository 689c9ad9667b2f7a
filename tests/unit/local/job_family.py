"""Two jobs with every kind of keyed step in them, rows for them, and ways to run them."""

import dataclasses
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from tests.golden.lineages import Lineages

import millstream as ms
from millstream.connectors.memory.spec import to_json
from millstream.plan.deployment import STATE_BACKENDS, MemoryBudget
from millstream.testing import ABORT, run_job

DELAY = 6
SCHEMA = "k string, v long, at long, n long"
TINY = MemoryBudget(page_bytes=150, state_bytes=1, cache_bytes=2000)
ROOMY = MemoryBudget()
CHANGELOGS = {"epoch-totals": ("k",), "best-so-far": ("k", "rank_number"), "last-so-far": ("k",)}
"""Sinks that get a row whenever a result changes: how often that is depends on the epochs, only the last one counts."""


class Timers(ms.ProcessFunction):
    """Says every timer once; a second one is set by the first."""

    def process(self, row, ctx):
        ctx.event_timer(row["at"] + 4)
        yield from ()

    def on_timer(self, at, ctx):
        if at % 2 == 0:
            ctx.event_timer(at + 1)
        yield {"k": ctx.key[0], "fired": at}


def gathered(key, window, rows):
    """The rows of a window, whatever order they came in."""
    yield {"k": key["k"], "start": window.start, "ids": sorted(row["n"] for row in rows)}


def in_time_job():
    """Steps that go by event time: the order of arrival does not matter while no row is late."""
    job = ms.Job("in-time")
    left, right = (
        job.source(name, ms.memory([]), schema=SCHEMA).event_time("at", max_delay=DELAY / 1000).key_by("k")
        for name in ("left", "right")
    )
    windows = {
        "tumbling": ms.tumbling(0.01),
        "sliding": ms.sliding(0.01, 0.005, offset=0.002),
        "session": ms.session(0.004),
    }
    for name, window in windows.items():
        made = left.window(window).aggregate(
            n=ms.count(), total=ms.sum("v"), most=ms.max("v"), mean=ms.avg("v"), kinds=ms.count_distinct("v"), id=name
        )
        made.sink(f"{name}-out", ms.collect("x"))
        rows = left.window(window).process(gathered, schema="k string, start long, ids array<long>", id=f"{name}-rows")
        rows.sink(f"{name}-rows-out", ms.collect("x"))
        if name == "tumbling":
            again = made.key_by("n").window(ms.tumbling(0.02)).aggregate(windows=ms.count(), id="again")
            again.sink("again-out", ms.collect("x"))
    for how in ("inner", "full"):
        near = left.join(right, how=how, within=(-0.003, 0.005), prefix="r_", id=f"near-{how}")
        near.sink(f"near-{how}-out", ms.collect("x"))
        met = left.window(ms.tumbling(0.01)).join(right, how=how, prefix="r_", id=f"met-{how}")
        met.sink(f"met-{how}-out", ms.collect("x"))
    left.temporal_join(right, how="left", prefix="r_", id="rated").sink("rated-out", ms.collect("x"))
    rising = ms.pattern.begin("one").followed_by("two").where("v > one.v").within(0.02).skip_past_last_event()
    found = left.pattern(rising, order_by="n").measures(
        first="one.n", second="two.n", timed_out={"alone": "one.n"}, id="rising"
    )
    found.sink("rising-out", ms.collect("x"))
    found.side_output("timed_out").sink("alone-out", ms.collect("x"))
    left.process(Timers(), schema="k string, fired long", id="timers").sink("timers-out", ms.collect("x"))
    return job


def _noted(ids, number):
    ids.append(number)
    return ids


class States(ms.ProcessFunction):
    """Every kind of state; what is emitted for a row depends on all rows of its key before it."""

    total = ms.ValueState(int)
    ids = ms.ListState(int)
    by_value = ms.MapState(int, int)
    most = ms.ReducingState(int, max)
    noted = ms.AggregatingState(list[int], create=list, add=_noted, result=len)
    recent = ms.ValueState(int, ttl=0.008, ttl_clock="event")
    touched = ms.ListState(int, ttl=0.008, ttl_clock="event", ttl_update="read")

    def process(self, row, ctx):
        value = row["v"] or 0
        self.total.update((self.total.value() or 0) + value)
        self.ids.add(row["n"])
        self.by_value.put(value, self.by_value.get(value, 0) + 1)
        self.most.add(value)
        self.noted.add(row["n"])
        found = (self.total.value(), self.ids.get(), sorted(self.by_value.items()), self.most.get(), self.noted.get())
        yield {"k": row["k"], "n": row["n"], "found": repr((*found, self.recent.value(), self.touched.get()))}
        if value % 3 == 0:
            self.ids.clear()
            self.by_value.remove(value)
            self.recent.update(row["n"])
            self.touched.add(row["n"])


def _plus(so_far, row):
    return {**row, "v": (so_far["v"] or 0) + (row["v"] or 0)}


def as_they_come_job():
    """Steps that take rows as they come: the order within a key matters, and nothing else."""
    job = ms.Job("as-they-come")
    rows = job.source("left", ms.memory([]), schema=SCHEMA).event_time("at", max_delay=DELAY / 1000).key_by("k")
    totals = {"n": ms.count(), "total": ms.sum("v"), "first": ms.first("n"), "last": ms.last("n")}
    steps = {
        "row-totals": rows.aggregate(**totals, emit="row", id="a"),
        "epoch-totals": rows.aggregate(**totals, id="b"),
        "end-totals": rows.aggregate(**totals, emit="end", id="c"),
        "reduced": rows.reduce(_plus, id="d"),
        "states": rows.process(States(), schema="k string, n long, found string", id="e"),
        "first": rows.deduplicate(id="f"),
        "last-so-far": rows.deduplicate(keep="last", by="v", id="g"),
        "last": rows.deduplicate(keep="last", by="v", emit="end", id="h"),
        "best-so-far": rows.top_n(2, by="v desc, n", id="i"),
        "best": rows.top_n(2, by="v desc, n", emit="end", id="j"),
    }
    for name, made in steps.items():
        made.sink(name, ms.collect("x"))
    return job


@st.composite
def rows_in_time(draw, most=16, name="left"):
    """Rows in the order of time, and the same rows in an order in which none is later than the allowed delay."""
    found = draw(
        st.lists(
            st.tuples(
                st.sampled_from(["a", "b", "ü", None]), st.one_of(st.none(), st.integers(-5, 5)), st.integers(0, 40)
            ),
            max_size=most,
            # A version of a table is the only one of its instant: else the last to come would count.
            unique_by=(lambda row: (row[0], row[2])) if name == "right" else None,
        )
    )
    found.sort(key=lambda row: row[2])
    rows = [dict(zip(("k", "v", "at", "n"), (*row, number), strict=True)) for number, row in enumerate(found)]
    jitter = draw(st.lists(st.integers(0, DELAY), min_size=len(rows), max_size=len(rows)))
    order = sorted(range(len(rows)), key=lambda place: rows[place]["at"] + jitter[place])
    return rows, [rows[place] for place in order]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Way:
    """How a job is run."""

    parallelism: int
    rows_per_epoch: int
    backend: str
    memory: MemoryBudget
    aborts: tuple[float, ...]
    """Where in the first script the run fails once, as shares of it."""
    restored: tuple[float, int] | None
    """After which share of the rows it is suspended, and with which parallelism it goes on."""


ways = st.builds(
    Way,
    parallelism=st.integers(1, 4),
    rows_per_epoch=st.integers(1, 8),
    backend=st.sampled_from(STATE_BACKENDS),
    memory=st.sampled_from([ROOMY, TINY]),
    aborts=st.one_of(st.just(()), st.lists(st.floats(0, 1), max_size=2).map(tuple)),
    restored=st.one_of(st.none(), st.tuples(st.floats(0.1, 0.8), st.integers(1, 4))),
)


def straight(job: ms.Job, inputs: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """One subtask, one epoch."""
    return compared(run_job(job, inputs, parallelism=1).sinks)


def run_as(job: ms.Job, inputs: dict[str, list[dict[str, Any]]], way: Way) -> dict[str, Any]:
    """The output of all lineages."""
    first = next(iter(inputs))
    scripts = {**inputs, first: _with_aborts(inputs[first], way.aborts)}
    options = {"rows_per_epoch": way.rows_per_epoch, "memory": way.memory, "state_backend": way.backend}
    if way.restored is None:
        return compared(run_job(job, scripts, parallelism=way.parallelism, **options).sinks)
    after, parallelism = way.restored
    specs = {name: ms.memory(script) for name, script in scripts.items()}
    with tempfile.TemporaryDirectory() as folder, Lineages(job, specs, Path(folder), **options) as lineages:
        savepoint = lineages.suspended("local", "old", parallelism=way.parallelism, after=after)
        lineages.finished("local", "new", parallelism=parallelism, savepoint=savepoint)
        return compared(lineages.output())


def _with_aborts(script, shares):
    made = list(script)
    for share in sorted(shares, reverse=True):
        made.insert(int(share * len(script)), dict(ABORT()))
    return made


def compared(sinks: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """What two runs must have in common: rows as a multiset, or the last ones."""
    return {
        name: _last(rows, CHANGELOGS[name]) if name in CHANGELOGS else _counted(rows) for name, rows in sinks.items()
    }


def _counted(rows):
    return Counter(repr(to_json(row)) for row in rows)


def _last(rows, keys):
    return {tuple(row[key] for key in keys): row for row in rows}
