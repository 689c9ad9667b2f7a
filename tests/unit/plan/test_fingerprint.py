"""What a checkpoint depends on is in the fingerprint, and nothing else."""

import pytest

import millstream as ms
from millstream.plan.deployment import Deployment


class Kept(ms.ProcessFunction):
    value = ms.ValueState(int)

    def process(self, row, ctx):
        yield row


class Renamed(ms.ProcessFunction):
    value = ms.ValueState(int)

    def process(self, row, ctx):
        yield row


class Retyped(Kept):
    value = ms.ValueState(str)


class Expires(Kept):
    value = ms.ValueState(int, ttl="1s")


class Lists(Kept):
    value = ms.ListState(int)


class ManyLists(Kept):
    value = ms.ValueState(list[int])


class ManyTexts(Kept):
    value = ms.ValueState(list[str])


class TwoStates(Kept):
    other = ms.ValueState(int)


def upper(row):
    return row


def lower(row):
    return row


def add(left, right):
    return left


BASE = {
    "schema": "k string, v long, at long",
    "where": "v > 0",
    "function": upper,
    "process": Kept,
    "keys": ("k",),
    "aggregate": {"n": ms.count(), "x": ms.sum("v")},
    "emit": "epoch",
    "window": ms.tumbling("10s"),
    "close": lambda window: window.reduce(add, id="window"),
    "requirements": {},
    "sink": ms.collect("x"),
    "id": "process",
    "rebalance": False,
    "lateness": 0,
}


def fingerprint(**changes):
    given = BASE | changes
    job = ms.Job("f", **given["requirements"])
    rows = job.source("in", ms.memory([{"k": "a"}]), schema=given["schema"]).event_time("at", id="time")
    rows = rows.filter(given["where"], id="filter").map(given["function"], schema=given["schema"], id="map")
    keyed = rows.key_by(*given["keys"])
    keyed.process(given["process"], schema=given["schema"], id=given["id"]).sink("out", given["sink"])
    keyed.aggregate(**given["aggregate"], emit=given["emit"], id="aggregate").sink("sums", given["sink"])
    window = keyed.window(given["window"], allowed_lateness=given["lateness"])
    given["close"](window).sink("windows", given["sink"])
    return job.compile(Deployment()).partitioned.fingerprint


def test_the_same_job_built_twice_is_the_same():
    assert fingerprint() == fingerprint()
    assert fingerprint().changes(fingerprint()) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"where": "v > 100"},
        {"function": lower},
        {"function": lambda row: row},
        {"process": Renamed},
        {"aggregate": {"n": ms.count(), "x": ms.sum("v * 2")}},
        {"requirements": {"epoch_interval": "9s", "parallelism": 7, "rows_per_epoch": 5}},
        {"sink": ms.collect("another name")},
        {"emit": "end"},
        {"lateness": 5},
        {"close": lambda window: window.reduce(lambda a, b: b, id="window")},
    ],
    ids=lambda value: "-".join(sorted(value)),
)
def test_what_may_change_freely(changes):
    assert fingerprint(**changes) == fingerprint()


@pytest.mark.parametrize(
    ("changes", "steps"),
    [
        ({"process": Retyped}, {"process"}),
        ({"process": Lists}, {"process"}),
        ({"process": Expires}, {"process"}),
        ({"process": TwoStates}, {"process"}),
        ({"keys": ("k", "v")}, {"process", "aggregate", "window"}),
        ({"aggregate": {"n": ms.count(), "x": ms.max("v")}}, {"aggregate"}),
        ({"aggregate": {"n": ms.count(), "y": ms.sum("v")}}, {"aggregate"}),
        ({"emit": "row"}, {"aggregate"}),
        ({"window": ms.tumbling("11s")}, {"window"}),
        ({"window": ms.tumbling("10s", offset="1s")}, {"window"}),
        ({"window": ms.session("10s")}, {"window"}),
        (
            {"close": lambda w: w.process(lambda k, w, rows: rows, schema=BASE["schema"], id="window")},
            {"window"},
        ),
        ({"sink": ms.print()}, {"out", "sums", "windows"}),
    ],
    ids=lambda value: "-".join(sorted(value)),
)
def test_what_state_depends_on_is_named_by_step(changes, steps):
    requirements = {"guarantee": "at_least_once"}
    before = fingerprint(requirements=requirements)
    after = fingerprint(requirements=requirements, **changes)
    assert after.whole != before.whole
    assert {step for step in before.steps if before.steps[step] != after.steps.get(step)} == steps
    assert len(after.changes(before)) == len(steps)
    assert all(any(f"'{step}'" in change for change in after.changes(before)) for step in steps)


def test_the_items_of_a_generic_state_type_count():
    assert fingerprint(process=ManyLists).whole != fingerprint(process=ManyTexts).whole


def test_a_changed_schema_names_every_step_it_reaches():
    changes = fingerprint(schema="k string, v int, at long").changes(fingerprint())
    assert any("'in'" in change for change in changes)


def test_a_renamed_step_is_new_and_gone():
    changes = fingerprint(id="renamed").changes(fingerprint())
    assert "step 'renamed' is new" in changes
    assert "step 'process' is gone" in changes


@pytest.mark.parametrize("requirements", [{"max_parallelism": 64}, {"guarantee": "at_least_once"}])
def test_requirements_of_the_whole_job(requirements):
    after = fingerprint(requirements=requirements)
    assert after.whole != fingerprint().whole
    assert after.changes(fingerprint()) == ["guarantee or key groups changed"]
