"""Joins, rankings and lookups give the same rows however a run is cut, at any parallelism, in any order in time."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import millstream as ms
from millstream.testing import run_job

DELAY, SIZE, SLIDE = 6, 8, 4
SCHEMA = "k string, n long, at long"
RUN = settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
HOWS = ("inner", "left", "right", "full")
cuts = st.fixed_dictionaries({"parallelism": st.integers(1, 4), "rows_per_epoch": st.integers(1, 20)})


@st.composite
def in_time(draw):
    """Rows numbered as they come, none more than the allowed delay behind a later one."""
    found = draw(st.lists(st.tuples(st.sampled_from(["a", "b", "ü", None]), st.integers(-20, 40)), max_size=16))
    jitter = draw(st.lists(st.integers(0, DELAY), min_size=len(found), max_size=len(found)))
    order = sorted(range(len(found)), key=lambda place: found[place][1] + jitter[place])
    return [{"k": found[place][0], "n": n, "at": found[place][1]} for n, place in enumerate(order)]


bounds_ = st.sampled_from([(-4, 5), (2, 6), (-7, -3), (0, 0)])


def job_of(bounds):
    job = ms.Job("pairs")
    left, right = (
        job.source(name, ms.memory([]), schema=SCHEMA).event_time("at", max_delay=DELAY / 1000)
        for name in ("left", "right")
    )
    one, other = left.key_by("k"), right.key_by("k")
    window = ms.sliding(SIZE / 1000, SLIDE / 1000, offset=0.001)
    for how in HOWS:
        within = (bounds[0] / 1000, bounds[1] / 1000)
        near = one.join(other, how=how, within=within, where="n <> r_n", prefix="r_", id=f"near-{how}-j")
        near.sink(f"near-{how}", ms.collect("x"))
        same = one.window(window).join(other, how=how, where="n <> r_n", prefix="r_", id=f"same-{how}-j")
        same.sink(f"same-{how}", ms.collect("x"))
    one.join(other, prefix="r_", id="ever-j").sink("ever", ms.collect("x"))
    one.temporal_join(other, how="left", prefix="r_", id="as-of-j").sink("as-of", ms.collect("x"))
    return job


def pairs(left, right, how, holds):
    out, met = [], (set(), set())
    for one in left:
        for other in right:
            if one["k"] is not None and one["k"] == other["k"] and holds(one, other):
                out.append((one["n"], other["n"]))
                met[0].add(one["n"])
                met[1].add(other["n"])
    out += [(one["n"], None) for one in left if how in {"left", "full"} and one["n"] not in met[0]]
    return out + [(None, other["n"]) for other in right if how in {"right", "full"} and other["n"] not in met[1]]


def by_window(left, right, how):
    out = []
    for start in range(-51, 60, SLIDE):
        inside = [[row for row in rows if start <= row["at"] < start + SIZE] for rows in (left, right)]
        out += pairs(*inside, how, lambda one, other: one["n"] != other["n"])
    return out


def as_of(left, right):
    out = []
    for one in left:
        valid = [o for o in right if o["k"] == one["k"] is not None and o["at"] <= one["at"]]
        newest = max(valid, key=lambda o: (o["at"], o["n"]), default=None)
        out.append((one["n"], None if newest is None else newest["n"]))
    return out


def expected(left, right, bounds):
    def is_near(one, other):
        return bounds[0] <= other["at"] - one["at"] <= bounds[1] and one["n"] != other["n"]

    wanted = {f"near-{how}": pairs(left, right, how, is_near) for how in HOWS}
    wanted |= {f"same-{how}": by_window(left, right, how) for how in HOWS}
    wanted["ever"] = pairs(left, right, "inner", lambda *_: True)
    return {name: sorted(rows, key=repr) for name, rows in (wanted | {"as-of": as_of(left, right)}).items()}


@RUN
@given(in_time(), in_time(), bounds_, cuts)
def test_joins(left, right, bounds, cut):
    output = run_job(job_of(bounds), {"left": left, "right": right}, **cut)
    found = {name: sorted(((row["n"], row["r_n"]) for row in rows), key=repr) for name, rows in output.sinks.items()}
    assert found == expected(left, right, bounds)
    assert all(counts.is_balanced and not counts.late for counts in output.counts.values())


def ranks_job():
    job = ms.Job("ranks")
    keyed = job.source("in", ms.memory([]), schema=SCHEMA).key_by("k")
    keyed.top_n(3, by="at desc, n", id="top-r").sink("top", ms.collect("x"))
    keyed.top_n(2, by="at", ties=True, emit="end", id="ties-r").sink("ties", ms.collect("x"))
    keyed.deduplicate(id="first-r").sink("first", ms.collect("x"))
    keyed.deduplicate(keep="last", by="at", id="last-r").sink("last", ms.collect("x"))
    return job


def ranked(rows):
    out = {"top": {}, "ties": set(), "first": {}, "last": {}}
    for key in {row["k"] for row in rows}:
        mine = [row for row in rows if row["k"] == key]
        best = sorted(mine, key=lambda row: (-row["at"], row["n"]))[:3]
        out["top"] |= {(key, place + 1): row["n"] for place, row in enumerate(best)}
        places = [(1 + sum(other["at"] < row["at"] for other in mine), row["n"]) for row in mine]
        out["ties"] |= {(key, place, n) for place, n in places if place <= 2}
        out["first"][key] = mine[0]["n"]
        out["last"][key] = max(mine, key=lambda row: (row["at"], row["n"]))["n"]
    return out


@RUN
@given(in_time(), cuts)
def test_rankings(rows, cut):
    output = run_job(ranks_job(), {"in": rows}, **cut)
    found = {
        "top": {(row["k"], row["rank_number"]): row["n"] for row in output["top"]},
        "ties": {(row["k"], row["rank_number"], row["n"]) for row in output["ties"]},
        "first": {row["k"]: row["n"] for row in output["first"]},
        "last": {row["k"]: row["n"] for row in output["last"]},
    }
    assert found == ranked(rows)
    assert len(output["first"]) == len(found["first"])
