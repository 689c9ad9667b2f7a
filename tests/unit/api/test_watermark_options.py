"""Watermark strategies and alignment as users write them: Python, job files, JSON, plans, and what may change."""

import json

import pytest
from tests.unit.plan.portable_jobs import rows

import millstream as ms
from millstream.api.jobfile.load import load_job
from millstream.errors import InvalidExpression, InvalidStep
from millstream.graph.operations.watermark import EventTime, WatermarkSpec
from millstream.jobmaster.compatibility import compare, shape_of


class Lagging(ms.WatermarkGenerator):
    def on_epoch(self, state, newest, rows, now):
        return newest, state


class Late(ms.WatermarkGenerator):
    """Its delay is an attribute, so another process could not find it by name."""

    def __init__(self, delay):
        self.delay = delay

    def on_epoch(self, state, newest, rows, now):
        return None, None if newest is None else newest - self.delay


HERE = f"{__name__}:Lagging"
STRATEGIES = {
    "bounded": (ms.watermark.bounded("5s"), "{bounded: 5s}", "at, at most 5s late"),
    "ascending": (ms.watermark.ascending(), "ascending", "at, in order"),
    "none": (ms.watermark.none(), "none", "at, no watermark before the end"),
    "punctuated": (
        ms.watermark.punctuated("amount > 10"),
        "{punctuated: amount > 10}",
        "at, watermark from rows where amount > 10",
    ),
    "punctuated by column": (
        ms.watermark.punctuated("user = 'm'", column="at"),
        "{punctuated: \"user = 'm'\", column: at}",
        "at, watermark from at of rows where user = 'm'",
    ),
    "generator": (Lagging, f"{{generator: '{HERE}'}}", f"at, watermark by {HERE}"),
}
NAMED = pytest.mark.parametrize("name", STRATEGIES)


def timed(**options):
    job = ms.Job("timed")
    stream = rows(job).event_time("at", id="time", **options)
    windows = stream.key_by("user").window(ms.tumbling("1m")).aggregate(n=ms.count(), id="w")
    windows.sink("out", ms.collect("o"))
    return job


def operation(job):
    return next(step.operation for step in job.model.steps if step.id == "time")


def written(**options):
    """The same job as a file."""
    lines = "".join(f"\n    {name}: {value}" for name, value in options.items())
    return load_job(f"""
job: timed
steps:
  - source: orders
    from: {{memory: {{rows: [{{user: a, amount: 1.5, at: 1}}]}}}}
    schema: user string, amount double, at long, tags array<string>
  - event_time: at
    id: time{lines}
  - aggregate: {{n: count()}}
    key_by: user
    window: {{tumbling: 1m}}
    id: w
  - sink: out
    to: {{collect: {{name: o}}}}
""")


@NAMED
def test_a_strategy_survives_json_and_files(name):
    strategy, text, _ = STRATEGIES[name]
    aligned = {"interval": "10s", "idle_after": "1m", "align": "g", "max_drift": "30s"}
    job = timed(watermark=strategy, **aligned)
    back = ms.Job.from_json(json.loads(json.dumps(job.to_json())))
    assert back.model == job.model
    assert back.compile() == job.compile()
    assert written(watermark=text, **aligned).model == job.model


@NAMED
def test_a_plan_tells_the_strategy(name):
    strategy, _, text = STRATEGIES[name]
    assert operation(timed(watermark=strategy)).describe() == text
    assert text in timed(watermark=strategy).explain("stream")


def test_a_plan_tells_the_rest():
    job = timed(interval="10s", idle_after="1m", align="g", max_drift="30s")
    assert "at most 0s late, at most every 10s, idle after 1m, at most 30s ahead in 'g'" in job.explain("stream")


def test_bounded_is_max_delay():
    assert timed(watermark=ms.watermark.bounded("5s")).model == timed(max_delay="5s").model
    assert timed(watermark=ms.watermark.bounded(0)).model == timed().model


@NAMED
def test_another_strategy_fits_what_is_stored(name):
    before, after = (shape_of(timed(**o).compile().deployment) for o in ({}, {"watermark": STRATEGIES[name][0]}))
    assert before.fingerprint == after.fingerprint
    assert compare(before, after).refusal() is None


def test_a_generator_that_another_process_cannot_find_is_not_written():
    with pytest.raises(InvalidStep) as caught:
        timed(watermark=Late(5)).to_json()
    assert caught.value.code == "STEP-050"


def test_a_generator_may_be_named():
    assert timed(watermark=HERE).model == timed(watermark=Lagging).model == timed(watermark=Lagging()).model


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"watermark": ms.watermark.none(), "max_delay": "5s"}, "STEP-160"),
        ({"watermark": "5s"}, "STEP-010"),
        ({"watermark": 5}, "STEP-161"),
        ({"watermark": "tests.unit.plan.portable_jobs:same"}, "STEP-161"),
        ({"align": "g"}, "STEP-162"),
        ({"max_drift": "5s"}, "STEP-162"),
        ({"align": "", "max_drift": "5s"}, "STEP-162"),
        ({"interval": 0}, "STEP-004"),
        ({"align": "g", "max_drift": 0}, "STEP-004"),
        ({"watermark": ms.watermark.punctuated("true", column="user")}, "STEP-044"),
        ({"watermark": ms.watermark.punctuated("true", column="nobody")}, "STEP-042"),
    ],
)
def test_refused(options, code):
    with pytest.raises(InvalidStep) as caught:
        timed(**options)
    assert caught.value.code == code
    assert caught.value.hint


def test_a_mark_is_a_condition():
    with pytest.raises(InvalidExpression):
        timed(watermark=ms.watermark.punctuated("amount + 1"))


@pytest.mark.parametrize(
    "fields", [{"kind": "punctuated"}, {"kind": "none", "where": "true"}, {"kind": "ascending", "column": "at"}]
)
def test_a_specification_checks_itself(fields):
    with pytest.raises(InvalidStep) as caught:
        WatermarkSpec(**fields)
    assert caught.value.code == "STEP-164"


@pytest.mark.parametrize("name", ["max_delay", "idle_after", "interval"])
def test_durations_below_zero_in_json(name):
    with pytest.raises(InvalidStep) as caught:
        EventTime(column="at", **{name: -1})
    assert caught.value.code == "STEP-023"


@pytest.mark.parametrize("exchange", ["key_by", "rebalance"])
def test_only_sources_can_wait(exchange):
    stream = rows(ms.Job("j"))
    if exchange == "key_by":
        stream = stream.key_by("user").aggregate(at=ms.max("at"), id="n").filter("at > 0")
    else:
        stream = stream.rebalance().filter("at > 0")
    with pytest.raises(InvalidStep) as caught:
        stream.event_time("at", align="g", max_drift="5s", id="time")
    assert (caught.value.code, caught.value.step) == ("STEP-163", "time")


@pytest.mark.parametrize(
    "text",
    ["later", "{}", "[bounded]", "{bounded: 5s, punctuated: x}", "{bounded: 5s, column: at}", "{punctuated: 5}"],
)
def test_other_forms_in_a_file(text):
    with pytest.raises(InvalidStep) as caught:
        written(watermark=text)
    assert caught.value.code in {"DECL-004", "DECL-006"}


def test_a_group_in_a_file_is_text():
    with pytest.raises(InvalidStep, match="DECL-006"):
        written(align="[g]", max_drift="5s")
