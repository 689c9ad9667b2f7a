"""Results do not depend on how a run is cut, on its parallelism, or on the order in which rows arrive in time."""

from collections import defaultdict

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import millstream as ms
from millstream.model.counts import StepCounts
from millstream.testing import ABORT, run_job

DELAY, SIZE, SLIDE, GAP = 6, 10, 5, 4
SCHEMA = "key string, value long, at long"
NO_ROWS = StepCounts()
RUN = settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))

rows_ = st.lists(
    st.builds(
        lambda key, value, at: {"key": key, "value": value, "at": at},
        st.sampled_from(["a", "b", "ü", None]),
        st.one_of(st.none(), st.integers(-9, 9)),
        st.integers(-20, 40),
    ),
    max_size=18,
)
cuts = st.fixed_dictionaries({"parallelism": st.integers(1, 4), "rows_per_epoch": st.integers(1, 20)})


@st.composite
def in_time(draw):
    """Rows in an order in which none comes more than the allowed delay behind a later one."""
    rows = draw(rows_)
    jitter = draw(st.lists(st.integers(0, DELAY), min_size=len(rows), max_size=len(rows)))
    order = sorted(range(len(rows)), key=lambda place: rows[place]["at"] + jitter[place])
    return [rows[place] for place in order]


def windows_job():
    job = ms.Job("windows")
    rows = job.source("in", ms.memory([]), schema=SCHEMA).event_time("at", max_delay=DELAY / 1000)
    kinds = {
        "tumbling": ms.tumbling(SIZE / 1000),
        "sliding": ms.sliding(SIZE / 1000, SLIDE / 1000, offset=0.002),
        "session": ms.session(GAP / 1000),
    }
    for name, window in kinds.items():
        result = (
            rows.key_by("key")
            .window(window)
            .aggregate(n=ms.count(), total=ms.sum("value"), most=ms.max("value"), id=f"{name}-w")
        )
        result.sink(name, ms.collect(name))
        result.late.sink(f"{name}-late", ms.collect(name))
    rows.key_by("key").aggregate(n=ms.count(), total=ms.sum("value"), emit="end", id="totals").sink(
        "end", ms.collect("end")
    )
    return job


def summary(values):
    known = [value for value in values if value is not None]
    return len(values), sum(known) if known else None, max(known, default=None)


def fixed(rows, size, slide, offset):
    """Every window of every row, one by one."""
    windows = defaultdict(list)
    for row in rows:
        for start in range(row["at"] - size + 1, row["at"] + 1):
            if (start - offset) % slide == 0:
                windows[row["key"], start, start + size].append(row["value"])
    return {window: summary(values) for window, values in windows.items()}


def sessions(rows):
    """Rows of a key in the order of time; a pause above the gap ends a session."""
    found = {}
    for key in {row["key"] for row in rows}:
        held = []
        for row in sorted((row for row in rows if row["key"] == key), key=lambda row: row["at"]):
            if held and row["at"] > held[-1]["at"] + GAP:
                found[key, held[0]["at"], held[-1]["at"] + GAP] = summary([each["value"] for each in held])
                held = []
            held.append(row)
        if held:
            found[key, held[0]["at"], held[-1]["at"] + GAP] = summary([each["value"] for each in held])
    return found


def as_windows(rows):
    found = {}
    for row in rows:
        bounds = [round(row[name].timestamp() * 1000) for name in ("window_start", "window_end")]
        window = (row["key"], *bounds)
        assert window not in found, f"{window} fired twice"
        found[window] = (row["n"], row["total"], row["most"])
    return found


@RUN
@given(rows=in_time(), cut=cuts, crash=st.integers(0, 20))
def test_windows_equal_the_oracle(rows, cut, crash):
    script = [*rows[:crash], ABORT(), *rows[crash:]] if crash < len(rows) else rows
    output = run_job(windows_job(), {"in": script}, **cut)
    assert as_windows(output["tumbling"]) == fixed(rows, SIZE, SIZE, 0)
    assert as_windows(output["sliding"]) == fixed(rows, SIZE, SLIDE, 2)
    assert as_windows(output["session"]) == sessions(rows)
    assert not any(output[f"{name}-late"] for name in ("tumbling", "sliding", "session"))
    by_key = defaultdict(list)
    for row in rows:
        by_key[row["key"]].append(row["value"])
    assert {row["key"]: (row["n"], row["total"]) for row in output["end"]} == {
        key: summary(values)[:2] for key, values in by_key.items()
    }


@RUN
@given(rows=rows_, cut=cuts)
def test_every_row_is_accounted_for(rows, cut):
    """Whatever comes too late is counted and put out: nothing is lost between the windows and the late output."""
    output = run_job(windows_job(), {"in": rows}, **cut)
    assert all(counts.is_balanced for counts in output.counts.values()), output.counts
    for name in ("tumbling", "session"):
        assert sum(row["n"] for row in output[name]) + len(output[f"{name}-late"]) == len(rows)
        assert output.counts.get(f"{name}-w", NO_ROWS).late == len(output[f"{name}-late"])


@RUN
@given(rows=rows_, cut=cuts)
def test_running_results_do_not_depend_on_cuts(rows, cut):
    output = run_job(running_job(), {"in": rows}, **cut)
    held, reduced, numbered = {}, defaultdict(list), defaultdict(list)
    for row in rows:
        key = row["key"]
        held[key] = row if key not in held else {**row, "value": add(held[key]["value"], row["value"])}
        reduced[key].append(held[key])
        numbered[key].append({"key": key, "n": len(numbered[key]) + 1})
    assert by_key(output["reduced"]) == reduced
    assert by_key(output["numbered"]) == numbered
    assert all(counts.is_balanced for counts in output.counts.values()), output.counts


class Number(ms.ProcessFunction):
    n = ms.ValueState(int)

    def process(self, row, ctx):
        self.n.update((self.n.value() or 0) + 1)
        yield {"key": row["key"], "n": self.n.value()}


def add(left, right):
    return (left or 0) + (right or 0)


def running_job():
    job = ms.Job("running")
    keyed = job.source("in", ms.memory([]), schema=SCHEMA).key_by("key")
    keyed.reduce(lambda held, row: {**row, "value": add(held["value"], row["value"])}, id="r").sink(
        "reduced", ms.collect("r")
    )
    keyed.process(Number, schema="key string, n long", id="p").sink("numbered", ms.collect("n"))
    return job


def by_key(rows):
    groups = defaultdict(list)
    for row in rows:
        groups[row["key"]].append(row)
    return groups


@RUN
@given(rows=rows_, cut=cuts)
def test_bad_records_are_accounted_for(rows, cut):
    output = run_job(failing_job(), {"in": rows}, **cut)
    assert all(counts.is_balanced for counts in output.counts.values()), output.counts
    assert all(min(counts.passed, counts.skipped, counts.failed) >= 0 for counts in output.counts.values()), (
        output.counts
    )


def fussy(row):
    if row["value"] == 0:
        raise ValueError("zero")
    return {**row, "value": "text" if row["value"] == 1 else row["value"]}


class Fussy(ms.ProcessFunction):
    def process(self, row, ctx):
        yield fussy(row)
        yield fussy(row)


def failing_job():
    job = ms.Job("failing")
    rows = job.source("in", ms.memory([]), schema=SCHEMA)
    dead = ms.dead_letter(ms.collect("dead"))
    rows.filter("value is not null").map(fussy, schema=SCHEMA, on_error="skip").sink("mapped", ms.collect("m"))
    rows.flat_map(lambda row: [fussy(row)] * 2, schema=SCHEMA, on_error=dead, id="flat").sink(
        "flatted", ms.collect("f")
    )
    rows.filter(lambda row: row["value"] > 0, on_error="skip").sink("filtered", ms.collect("s"))
    rows.key_by("key").process(Fussy, schema=SCHEMA, on_error=dead, id="fussy").sink("processed", ms.collect("p"))
    return job
