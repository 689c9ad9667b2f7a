"""Steps of two inputs, lookups, rankings and asynchronous steps: refusals, job files, and the JSON form."""

import pytest

import millstream as ms
from millstream.api.jobfile.load import load_job
from millstream.errors import InvalidExpression, InvalidStep

MODULE = "tests.unit.api.two_input_functions"
FILE = f"""
job: pairs
steps:
  - source: bids
    from: {{memory: {{rows: []}}}}
    schema: auction long, price long, at long
  - event_time: at
    id: timed-bids
  - source: auctions
    from: {{memory: {{rows: []}}}}
    schema: id long, category long, opened long
  - event_time: opened
    id: timed-auctions
  - join: timed-auctions
    input: timed-bids
    key_by: auction
    right_key_by: id
    where: category = 10
    keep: 1h
    id: ever
  - sink: ever-out
    to: {{collect: {{name: a}}}}
  - join: timed-auctions
    input: timed-bids
    key_by: auction
    right_key_by: id
    how: full
    within: [-5m, 10s]
    id: near
  - sink: near-out
    to: {{collect: {{name: b}}}}
  - join: timed-bids
    input: timed-bids
    key_by: [auction]
    window: {{sliding: 1m, slide: 10s}}
    allowed_lateness: 5s
    prefix: r_
    how: left
    id: by-window
  - sink: by-window-out
    to: {{collect: {{name: c}}}}
  - temporal_join: timed-auctions
    input: timed-bids
    key_by: auction
    right_key_by: id
    how: left
    id: as-of
  - lookup: [{{key: 1, name: one}}]
    match: {{auction: key}}
    how: left
    id: named
  - async_map: {MODULE}:answer
    schema: auction long
    concurrency: 5
    timeout: 2s
    retries: 2
    ordered: true
    on_error: skip
    id: asked
  - deduplicate: last
    key_by: auction
    by: auction desc
    id: once
  - top_n: 3
    key_by: auction
    by: auction
    rank: place
    emit: end
    id: best
  - sink: best-out
    to: {{collect: {{name: d}}}}
  - connect: {MODULE}:Both
    input: timed-bids
    with: timed-auctions
    key_by: auction
    right_key_by: id
    schema: n long
    id: both
  - sink: both-out
    to: {{collect: {{name: e}}}}
  - connect: {MODULE}:Rules
    input: timed-bids
    with: timed-auctions
    broadcast: true
    schema: n long
    on_error: skip
    id: ruled
  - sink: ruled-out
    to: {{collect: {{name: f}}}}
"""


def streams():
    job = ms.Job("pairs")
    bids = job.source("bids", ms.memory([]), schema="auction long, price long, at long").event_time(
        "at", id="timed-bids"
    )
    auctions = job.source("auctions", ms.memory([]), schema="id long, category long, opened long").event_time(
        "opened", id="timed-auctions"
    )
    return job, bids, auctions


def written():
    job, bids, auctions = streams()
    left, right = bids.key_by("auction"), auctions.key_by("id")
    left.join(right, where="category = 10", keep="1h", id="ever").sink("ever-out", ms.collect("a"))
    left.join(right, how="full", within=("-5m", "10s"), id="near").sink("near-out", ms.collect("b"))
    windows = left.window(ms.sliding("1m", "10s"), allowed_lateness="5s")
    windows.join(left, how="left", prefix="r_", id="by-window").sink("by-window-out", ms.collect("c"))
    named = left.temporal_join(right, how="left", id="as-of").lookup(
        [{"key": 1, "name": "one"}], on={"auction": "key"}, how="left", id="named"
    )
    asked = named.async_map(
        f"{MODULE}:answer", schema="auction long", concurrency=5, timeout="2s", retries=2, on_error="skip", id="asked"
    )
    once = asked.key_by("auction").deduplicate(keep="last", by="auction desc", id="once")
    once.key_by("auction").top_n(3, by="auction", rank="place", emit="end", id="best").sink("best-out", ms.collect("d"))
    left.connect(right).process(f"{MODULE}:Both", schema="n long", id="both").sink("both-out", ms.collect("e"))
    ruled = bids.connect(auctions.broadcast()).process(f"{MODULE}:Rules", schema="n long", on_error="skip", id="ruled")
    ruled.sink("ruled-out", ms.collect("f"))
    return job


def test_a_job_file_gives_the_steps_of_the_python_form():
    assert load_job(FILE).model == written().model


def test_the_json_form_gives_an_equal_plan():
    job = written()
    again = ms.Job.from_json(job.to_json())
    assert again.model == job.model
    assert again.compile().partitioned.fingerprint == job.compile().partitioned.fingerprint
    ruled = next(step.operation for step in again.model.steps if step.id == "ruled")
    assert [state.name for state in ruled.broadcast] == ["rules"]
    assert ruled.states == ()


def test_explain_says_how_rows_are_paired():
    text = written().explain("stream")
    for words in (
        "inner, rows kept 1h, where category = 10",
        "full, within -5m to 10s",
        "left, in sliding(1m, every 10s), allowed lateness 5s",
        "left, as of the time of the left row",
        "left, rows of the job on auction = key",
        "first 3 by auction; emits per end",
        "last by auction desc; emits per epoch",
        "5 at a time, in order",
        "timed-auctions, broadcast",
    ):
        assert words in text, words


@pytest.mark.parametrize(
    ("build", "code"),
    [
        (lambda left, right: left.join(right, how="outer"), "STEP-082"),
        (lambda left, right: left.join(right, how="left"), "STEP-080"),
        (lambda left, right: left.join(right, within=("5s", "-5s")), "STEP-080"),
        (lambda left, right: left.join(right, within="5s"), "STEP-080"),
        (lambda left, right: left.join(right, within=("-5s", "5s"), keep="1h"), "STEP-080"),
        (lambda left, right: left.join(left), "STEP-081"),
        (lambda left, right: left.join(right, keep="soon"), "STEP-004"),
        (lambda left, right: left.join("auctions"), "STEP-077"),
        (lambda left, right: left.window(ms.session("1m")).join(right), "STEP-080"),
        (lambda left, right: left.temporal_join(right, how="full"), "STEP-082"),
        (lambda left, right: left.top_n(0, by="price"), "STEP-085"),
        (lambda left, right: left.top_n(3, by="price downwards"), "STEP-086"),
        (lambda left, right: left.top_n(3, by="cost"), "STEP-042"),
        (lambda left, right: left.top_n(3, by="price", rank="at"), "STEP-081"),
        (lambda left, right: left.top_n(3, by="price", ties=True), "STEP-085"),
        (lambda left, right: left.top_n(3, by="price", emit="row"), "STEP-070"),
        (lambda left, right: left.deduplicate(keep="best"), "STEP-070"),
        (lambda left, right: left.deduplicate(keep="last", ttl="1h"), "STEP-085"),
    ],
)
def test_refusals(build, code):
    _, bids, auctions = streams()
    with pytest.raises(InvalidStep) as caught:
        build(bids.key_by("auction"), auctions.key_by("id"))
    assert caught.value.code == code


def test_a_condition_names_columns_of_the_joined_row():
    _, bids, auctions = streams()
    with pytest.raises(InvalidExpression, match="seller"):
        bids.key_by("auction").join(auctions.key_by("id"), where="seller = 1")


def test_keys_are_of_the_same_types():
    job, bids, _ = streams()
    names = job.source("names", ms.memory([]), schema="id string, name string")
    with pytest.raises(InvalidStep) as caught:
        bids.key_by("auction").join(names.key_by("id"))
    assert caught.value.code == "STEP-047"


def test_bounds_need_event_time_on_both_sides():
    job, bids, _ = streams()
    names = job.source("names", ms.memory([]), schema="id long, name string")
    for build in (
        lambda: bids.key_by("auction").join(names.key_by("id"), within=(0, "5s")),
        lambda: bids.key_by("auction").window(ms.tumbling("1m")).join(names.key_by("id")),
        lambda: bids.key_by("auction").temporal_join(names.key_by("id")),
    ):
        with pytest.raises(InvalidStep) as caught:
            build()
        assert caught.value.code == "STEP-040"
    assert bids.key_by("auction").join(names.key_by("id")).schema.names == ("auction", "price", "at", "id", "name")


def test_rows_of_an_outer_side_may_be_missing():
    _, bids, auctions = streams()
    made = bids.key_by("auction").join(auctions.key_by("id"), how="right", within=(0, "5s"))
    assert made.schema["price"].nullable
    assert made.late.schema == bids.schema
    assert made.side_output("late_right").schema == auctions.schema
