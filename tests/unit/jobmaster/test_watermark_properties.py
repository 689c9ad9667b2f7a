"""However rows arrive within the bound, epochs are cut and runs restarted: nothing is late, and no watermark goes back."""

import itertools
from collections import Counter

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import millstream as ms
from millstream.testing import ABORT, ADVANCE_CLOCK, run_job

DELAY, SIZE = 7, 10
RUN = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
SOURCES, SHARDS = ("left", "right"), ("p", "q", "r")
cuts = st.fixed_dictionaries({"parallelism": st.integers(1, 3), "rows_per_epoch": st.integers(1, 9)})


@st.composite
def within_the_bound(draw, shard):
    """Rows of a partition, none more than the delay behind a row before it."""
    times = draw(st.lists(st.integers(0, 120), max_size=12))
    jitter = draw(st.lists(st.integers(0, DELAY), min_size=len(times), max_size=len(times)))
    order = sorted(range(len(times)), key=lambda place: (times[place] + jitter[place], place))
    return [{"shard": shard, "at": times[place]} for place in order]


@st.composite
def scripts(draw, between=("row", "row", "row", "cut")):
    """Partitions in any order among each other, with something between their rows."""
    marks = {"cut": ADVANCE_CLOCK(0), "crash": ABORT(), "clock": ADVANCE_CLOCK("4s")}
    waiting = [draw(within_the_bound(shard)) for shard in SHARDS]
    script = []
    while any(waiting):
        script.append(draw(st.sampled_from([rows for rows in waiting if rows])).pop(0))
        kind = draw(st.sampled_from(between))
        script += [marks[kind]] if kind in marks else []
    return script


def rows_of(script):
    return [row for row in script if "shard" in row]


def windows_job(**timing):
    """Windows over each source, and over both."""
    job = ms.Job("property")
    streams = {
        name: job.source(name, ms.memory([]), schema="shard string, at long").event_time("at", id=f"{name}-t", **timing)
        for name in SOURCES
    }
    streams["both"] = streams["left"].union(streams["right"])
    for name, rows in streams.items():
        made = rows.key_by("shard").window(ms.tumbling(SIZE / 1000)).aggregate(n=ms.count(), id=f"{name}-w")
        made.sink(name, ms.collect("o"))
        made.late.sink(f"{name}-late", ms.collect("o"))
    return job


def run(job, given_scripts, cut):
    inputs = {name: ms.memory(script, partition_by="shard") for name, script in given_scripts.items()}
    return run_job(job, inputs, **cut)


def counted(rows):
    return Counter((row["shard"], row["at"] // SIZE * SIZE) for row in rows)


def fired(rows):
    found = {}
    for row in rows:
        window = (row["shard"], round(row["window_start"].timestamp() * 1000))
        assert window not in found, f"{window} fired twice"
        found[window] = row["n"]
    return found


def check_monotone(epochs):
    for before, after in itertools.pairwise(epochs):
        assert all(mark <= after.steps[step] for step, mark in before.steps.items()), (before, after)


@RUN
@given(
    left=scripts(between=("row", "row", "cut", "crash")),
    right=scripts(),
    cut=cuts,
    drift=st.one_of(st.none(), st.integers(1, 60)),
    interval=st.sampled_from([None, "1s"]),
)
def test_nothing_is_late_within_the_bound(left, right, cut, drift, interval):
    aligned = {} if drift is None else {"align": "g", "max_drift": drift / 1000}
    job = windows_job(watermark=ms.watermark.bounded(DELAY / 1000), interval=interval, **aligned)
    output = run(job, {"left": left, "right": right}, cut)
    rows = {"left": rows_of(left), "right": rows_of(right), "both": rows_of(left + right)}
    assert {name: output[f"{name}-late"] for name in rows} == {name: [] for name in rows}
    assert {name: fired(output[name]) for name in rows} == {name: dict(counted(given)) for name, given in rows.items()}
    check_monotone(output.epochs)


@RUN
@given(
    left=scripts(between=("row", "row", "cut", "clock", "crash")),
    right=scripts(between=("row", "row", "clock")),
    cut=cuts,
    idle=st.integers(1, 12),
    drift=st.one_of(st.none(), st.integers(1, 60)),
)
def test_watermarks_never_go_back_though_partitions_fall_idle(left, right, cut, idle, drift):
    """Idle partitions make rows late; no row is lost or counted twice by it, and no window fires again."""
    aligned = {} if drift is None else {"align": "g", "max_drift": drift / 1000}
    output = run(windows_job(idle_after=idle, **aligned), {"left": left, "right": right}, cut)
    rows = {"left": rows_of(left), "right": rows_of(right), "both": rows_of(left + right)}
    for name, given_rows in rows.items():
        kept = Counter(fired(output[name])) + counted(output[f"{name}-late"])
        assert kept == counted(given_rows)
    check_monotone(output.epochs)
