"""Built-in aggregates, vectorised and value by value, give the same results for every type."""

import datetime as dt
import math
import random
from decimal import Decimal
from fractions import Fraction

import pyarrow as pa
import pytest
from tests.unit.runtime.epochs import Epochs

import millstream as ms
from millstream.errors import StepFailed
from millstream.graph.operations.aggregate import AGGREGATES
from millstream.model.schema import schema_of
from millstream.state.pages import NEVER

D = Decimal
VALUES = {
    "boolean": [True, False, None],
    "byte": [-128, 127, 0, None],
    "int": [2**31 - 1, -(2**31), 5, None],
    "long": [2**40, -(2**40), 7, 0, None],
    "float": [1.5, -2.25, 1e10, None],
    "double": [0.5, -3.75, 1e100, None],
    "decimal(10,2)": [D("1.50"), D("-99999999.99"), D("0.01"), None],
    "decimal(38,18)": [D("12345678901234.123456789012345678"), D("0.000000000000000001"), D(0), None],
    "string": ["", "b", "grüße", "z", None],
    "binary": [b"", b"\xff", b"a", None],
    "date": [dt.date(1900, 1, 1), dt.date(2024, 2, 29), None],
    "timestamp": [dt.datetime(1969, 12, 31, tzinfo=dt.UTC), dt.datetime(2024, 1, 1, 0, 0, 0, 1, dt.UTC), None],
    "timestamp_ntz": [dt.datetime(1969, 12, 31), dt.datetime(2024, 1, 1, 0, 0, 0, 1), None],
}


def kinds_for(kind):
    arrow = schema_of(f"v {kind}")["v"].type
    return [name for name, aggregate in AGGREGATES.items() if aggregate.accepts(arrow)]


def job_of(kind, emit):
    job = ms.Job("aggregates", max_parallelism=4)
    rows = job.source("in", ms.memory([]), schema=f"k string, v {kind}")
    aggregates = {f"{name}_": getattr(ms, name)("v") for name in kinds_for(kind)}
    rows.key_by("k").aggregate(rows=ms.count(), **aggregates, emit=emit, id="a").sink("out", ms.collect("x"))
    return job


def mean(values, kind):
    if kind.startswith("decimal"):
        unit = 10 ** (6 if "10" in kind else 22)
        exact = sum(map(Fraction, values)) / len(values) * unit
        half_up = math.floor(abs(exact) + Fraction(1, 2))
        return Fraction(half_up if exact >= 0 else -half_up, unit)
    return math.fsum(map(float, values)) / len(values)


def expected(values, kind):
    known = [value for value in values if value is not None]
    with_sum = kind in {"byte", "int", "long", "float", "double"} or kind.startswith("decimal")
    found = {"rows": len(values), "count_": len(known), "count_distinct_": len(set(known))}
    if "min" in kinds_for(kind):
        found |= {"min_": min(known, default=None), "max_": max(known, default=None)}
    found |= {"first_": known[0] if known else None, "last_": known[-1] if known else None}
    if with_sum:
        total = None
        if known:
            total = sum(map(Fraction, known)) if kind.startswith("decimal") else sum(known)
        found |= {"sum_": total, "avg_": mean(known, kind) if known else None}
    return found


def close(left, right):
    if isinstance(left, float):
        return left == pytest.approx(right, rel=1e-12)
    return (Fraction(left) if isinstance(left, Decimal) else left) == right


def equal(left, right):
    return left.keys() == right.keys() and all(close(left[name], right[name]) for name in left)


@pytest.mark.parametrize("kind", VALUES)
def test_both_forms_equal_plain_python(kind):
    chance = random.Random(kind)
    rows = [{"k": chance.choice("abc"), "v": chance.choice(VALUES[kind])} for _ in range(40)]
    rows += [{"k": "nulls", "v": None}] * 3
    by_key = {}
    for row in rows:
        by_key.setdefault(row["k"], []).append(row["v"])
    wanted = {key: expected(values, kind) for key, values in by_key.items()}
    for emit in ("epoch", "row", "end"):
        run, last = Epochs(job_of(kind, emit), parallelism=2, page_bytes=200), {}
        for start in range(0, len(rows), 9):
            last |= {row.pop("k"): row for row in run.run(rows[start : start + 9])["out"]}
        last |= {row.pop("k"): row for row in run.run(terminal=True)["out"]}
        assert last.keys() == wanted.keys()
        for key, found in last.items():
            assert equal(found, wanted[key]), (emit, key)


@pytest.mark.parametrize("emit", ["epoch", "row", "end"])
@pytest.mark.parametrize("values", [[2**63 - 1, 1], [-(2**63), -1], [2**62, 2**62], [2**63 - 1] * 5])
@pytest.mark.parametrize("apart", [False, True])
def test_a_sum_never_wraps_around(emit, values, apart):
    run = Epochs(job_of("long", emit))
    parts = [[value] for value in values] if apart else [values]
    with pytest.raises(StepFailed) as caught:
        list(map(run.run, [[{"k": "a", "v": value} for value in part] for part in parts]))
    assert (caught.value.step, caught.value.code) in {("a", "RUN-005"), ("a", "RUN-001")}


@pytest.mark.parametrize("emit", ["epoch", "row"])
def test_sums_at_the_edge_are_exact(emit):
    run = Epochs(job_of("long", emit))
    run.run([{"k": "a", "v": 2**63 - 1}, {"k": "a", "v": -(2**62)}, {"k": "b", "v": -(2**63)}])
    made = run.run([{"k": "a", "v": 2**62}, {"k": "b", "v": 0}])["out"]
    assert {row["k"]: row["sum_"] for row in made} == {"a": 2**63 - 1, "b": -(2**63)}


def test_a_session_sum_that_overflows_names_the_step():
    job = ms.Job("sessions")
    rows = job.source("in", ms.memory([]), schema="k string, at long, v long").event_time("at")
    rows.key_by("k").window(ms.session("1s")).aggregate(total=ms.sum("v"), id="w").sink("out", ms.collect("x"))
    with pytest.raises(StepFailed) as caught:
        Epochs(job).run([{"k": "a", "at": 1, "v": 2**62}] * 2)
    assert caught.value.step == "w"


@pytest.mark.parametrize("emit", ["epoch", "row"])
def test_means_of_large_integers_do_not_overflow(emit):
    made = Epochs(job_of("long", "epoch")).run([{"k": "a", "v": 2**62}])
    assert made["out"][0]["avg_"] == 2.0**62
    job = ms.Job("mean")
    job.source("in", ms.memory([]), schema="k string, v long").key_by("k").aggregate(
        mean=ms.avg("v"), emit=emit, id="a"
    ).sink("out", ms.collect("x"))
    run = Epochs(job)
    made = [run.run([{"k": "a", "v": 2**63 - 1}] * 3) for _ in range(3)]
    assert made[-1]["out"][-1]["mean"] == 2.0**63


@pytest.mark.parametrize("order", [[1.0, math.nan, 3.0], [math.nan, 3.0, 1.0], [math.nan, math.nan]])
def test_nan_is_handled_alike(order):
    results = []
    for emit in ("epoch", "row"):
        made = Epochs(job_of("double", emit)).run([{"k": "a", "v": value} for value in order])["out"][-1]
        results.append(repr({name: made[name] for name in ("min_", "max_", "count_")}))
    assert results[0] == results[1]


@pytest.mark.parametrize("emit", ["epoch", "row"])
@pytest.mark.parametrize("kind", ["double", "float"])
@pytest.mark.parametrize("is_cut", [False, True], ids=["at once", "row by row"])
def test_nan_is_the_largest_number(emit, kind, is_cut):
    """As in Spark: the largest is NaN as soon as there is one, the smallest where there is nothing else."""
    values = {"a": [1.0, math.nan, None, 3.0], "b": [math.nan, -math.inf], "c": [math.nan, None], "d": [math.inf, 2.0]}
    rows = [{"k": key, "v": value} for key, some in values.items() for value in some]
    epochs, found = Epochs(job_of(kind, emit)), {}
    for some in [[row] for row in rows] if is_cut else [rows]:
        found |= {row["k"]: (row["min_"], row["max_"]) for row in epochs.run(some)["out"]}
    wanted = {"a": (1.0, math.nan), "b": (-math.inf, math.nan), "c": (math.nan, math.nan), "d": (2.0, math.inf)}
    assert repr(sorted(found.items())) == repr(sorted(wanted.items()))


@pytest.mark.parametrize("emit", ["epoch", "row"])
def test_an_expression_that_fails_names_the_step(emit):
    job = ms.Job("broken")
    job.source("in", ms.memory([]), schema="k string, v long").key_by("k").aggregate(
        x=ms.sum("1 / v"), emit=emit, id="ratio"
    ).sink("out", ms.collect("x"))
    with pytest.raises(StepFailed) as caught:
        Epochs(job).run([{"k": "a", "v": 0}])
    assert caught.value.step == "ratio"


def test_rows_without_event_time_are_aggregated_beside_those_with_it():
    job = ms.Job("union")
    schema = "k string, at long"
    timed = job.source("in", ms.memory([]), schema=schema).event_time("at")
    both = timed.union(job.source("other", ms.memory([]), schema=schema), id="both")
    both.key_by("k").aggregate(n=ms.count(), id="a").sink("out", ms.collect("x"))
    run = Epochs(job)
    assert run.run([{"k": "a", "at": 1}], source="other")["out"] == [{"k": "a", "n": 1}]
    assert run.run([{"k": "a", "at": 1}])["out"] == [{"k": "a", "n": 2}]


def test_keys_of_every_kind_of_nothing_stay_apart():
    job = ms.Job("keys")
    job.source("in", ms.memory([]), schema="a string, b double").key_by("a", "b").aggregate(n=ms.count(), id="a").sink(
        "out", ms.collect("x")
    )
    run = Epochs(job, parallelism=3)
    keys = [("", None), (None, 0.0), (None, None), ("", 0.0), ("", math.nan)]
    for count in (1, 2):
        made = run.run([{"a": a, "b": b} for a, b in keys])
        assert sorted(repr((row["a"], row["b"])) for row in made["out"]) == sorted(map(repr, keys))
        assert {row["n"] for row in made["out"]} == {count}
        assert made.event_due["a"] == NEVER


def test_only_keys_that_changed_are_emitted():
    run = Epochs(job_of("long", "epoch"))
    run.run([{"k": "a", "v": 1}, {"k": "b", "v": 1}])
    assert [row["k"] for row in run.run([{"k": "b", "v": 2}])["out"]] == ["b"]
    assert run.run()["out"] == []
    assert run.run(terminal=True)["out"] == []


@pytest.mark.parametrize("emit", ["epoch", "row"])
def test_a_mean_that_does_not_fit_names_the_step(emit):
    with pytest.raises(StepFailed) as caught:
        Epochs(job_of("decimal(38,18)", emit)).run([{"k": "a", "v": D(10) ** 19}])
    assert caught.value.step == "a"


def test_a_null_of_a_type_is_typed():
    made = Epochs(job_of("decimal(10,2)", "epoch")).run([{"k": "a", "v": None}])["out"][0]
    assert made == expected([None], "decimal(10,2)") | {"k": "a"}
    assert pa.array([made["sum_"]], pa.decimal128(20, 2)).null_count == 1
