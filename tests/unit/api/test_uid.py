"""A uid is what checkpoints know a step by: the id, until a step is renamed."""

import json

import pytest

import millstream as ms
from millstream.api.jobfile.load import load_job
from millstream.errors import InvalidStep

SCHEMA = "k string, v long, at long"
SUMS = {"n": ms.count()}


class Counter(ms.ProcessFunction):
    seen = ms.ValueState(int)

    def process(self, row, ctx):
        yield row


def add(held, row):
    return row


def of_window(key, window, rows):
    yield from rows


def rows(job=None, name="in", **options):
    return (job or ms.Job("job")).source(name, ms.memory([]), schema=SCHEMA, **options)


def windows():
    return rows().event_time("at").key_by("k").window(ms.tumbling("1m"))


KEYED = {
    "aggregate": lambda **given: rows().key_by("k").aggregate(**SUMS, **given),
    "reduce": lambda **given: rows().key_by("k").reduce(add, **given),
    "process": lambda **given: rows().key_by("k").process(Counter, schema=SCHEMA, **given),
    "window aggregate": lambda **given: windows().aggregate(**SUMS, **given),
    "window reduce": lambda **given: windows().reduce(add, **given),
    "window process": lambda **given: windows().process(of_window, schema=SCHEMA, **given),
    "event time": lambda **given: rows().event_time("at", **given),
}


def last_step(stream):
    return list(stream._job.model.steps)[-1]


@pytest.mark.parametrize("build", KEYED.values(), ids=KEYED)
def test_every_step_with_state_takes_a_uid(build):
    step = last_step(build(id="new", uid="old"))
    assert (step.id, step.uid) == ("new", "old")


@pytest.mark.parametrize("build", KEYED.values(), ids=KEYED)
def test_without_one_it_is_the_id(build):
    assert last_step(build(id="new")).uid == "new"


@pytest.mark.parametrize("build", KEYED.values(), ids=KEYED)
def test_a_step_without_an_id_may_have_a_uid(build):
    step = last_step(build(uid="old"))
    assert step.uid == "old"
    assert not step.has_given_id


def test_sources_and_sinks_take_one():
    stream = rows(name="new-in", uid="in")
    stream.sink("new-out", ms.collect("o"), uid="out")
    assert [(s.id, s.uid) for s in stream._job.model.steps] == [("new-in", "in"), ("new-out", "out")]


NAMES = {"source": "in", "step": "count", "sink": "out"}


def job(names=None, uids=None):
    """A job whose steps go by these names; a uid is given only where `uids` has one."""
    name, uid = NAMES | (names or {}), uids or {}
    made = ms.Job("job")
    stream = rows(made, name["source"], uid=uid.get("source"), on_error=ms.dead_letter(ms.collect("dead")))
    stream = stream.filter("v > 0").event_time("at").with_columns(w="v * 2").select("k", "v", "at")
    counted = stream.key_by("k").process(Counter, schema=SCHEMA, id=name["step"], uid=uid.get("step"))
    counted.sink(name["sink"], ms.collect("o"), uid=uid.get("sink"))
    return made


@pytest.mark.parametrize("renamed", [("source",), ("step",), ("sink",), ("source", "step", "sink")], ids=str)
def test_renaming_with_a_uid_keeps_the_fingerprint(renamed):
    """Also of the steps whose ids are derived from the renamed one, and of its dead letters."""
    names, uids = {part: f"new-{part}" for part in renamed}, {part: NAMES[part] for part in renamed}
    before = job().compile().partitioned.fingerprint
    assert job(names, uids).compile().partitioned.fingerprint == before
    assert job(names).compile().partitioned.fingerprint != before


def named_alike(**step):
    """A step whose sink bears the name that it has, or had."""
    made = ms.Job("alike")
    made_of = rows(made).key_by("k").aggregate(**SUMS, **step)
    made_of.sink("totals", ms.collect("totals"))
    return made


def test_a_step_is_renamed_while_its_sink_keeps_their_name():
    before, renamed = named_alike(id="totals"), named_alike(id="sums", uid="totals")
    assert [step.uid for step in renamed.model.steps] == [step.uid for step in before.model.steps]
    assert [step.id for step in renamed.model.steps] == ["in", "sums", "totals"]
    assert renamed.compile().partitioned.fingerprint == before.compile().partitioned.fingerprint
    assert ms.Job.from_json(json.loads(json.dumps(renamed.to_json()))).model == renamed.model


def test_a_renamed_step_goes_on_beside_its_sink(tmp_path):
    named_alike(id="totals").run(local=True, checkpoint=str(tmp_path))
    named_alike(id="sums", uid="totals").run(local=True, checkpoint=str(tmp_path))


def test_two_sinks_do_not_share_a_uid():
    made = rows()
    made.sink("new", ms.collect("a"), uid="old")
    with pytest.raises(InvalidStep, match="uid 'old' is already taken by step 'new'"):
        made.sink("old", ms.collect("b"))


def test_ids_stay_the_names_of_steps():
    plain, renamed = job({"source": "new"}).model.steps, job({"source": "new"}, {"source": "in"}).model.steps
    assert [step.id for step in plain][:4] == ["new", "new.dead", "new.filter", "new.filter.event_time"]
    assert [step.id for step in renamed] == [step.id for step in plain]
    assert [step.uid for step in renamed] == [step.id for step in job().model.steps]


@pytest.mark.parametrize(
    "build",
    [
        lambda made: rows(made, "other", uid="in"),
        lambda made: rows(made, "other").key_by("k").process(Counter, schema=SCHEMA, id="x", uid="in"),
        lambda made: rows(made, "other").sink("out", ms.collect("o"), uid="other"),
        lambda made: rows(made, "other", uid="gone").event_time("at", id="gone"),
    ],
)
def test_a_uid_belongs_to_one_step(build):
    made = ms.Job("job")
    rows(made, "in")
    with pytest.raises(InvalidStep) as caught:
        build(made)
    assert caught.value.code == "STEP-032"
    assert "another uid=" in caught.value.hint


def test_a_model_checks_it_too():
    value = job().to_json()
    value["steps"][-1]["uid"] = "in"
    with pytest.raises(InvalidStep, match="uid 'in' is already taken by step 'in'"):
        ms.Job.from_json(value)


@pytest.mark.parametrize("uid", ["a/b", "", 5, "x" * 129])
def test_a_uid_becomes_a_file_name(uid):
    with pytest.raises(InvalidStep, match="uid is not usable") as caught:
        rows(uid=uid)
    assert caught.value.code == "STEP-002"
    assert caught.value.step == "in"


def test_json_keeps_it():
    made = job({"source": "new", "step": "newer"}, {"source": "in", "step": "count"})
    back = ms.Job.from_json(json.loads(json.dumps(made.to_json())))
    assert back.model == made.model
    assert [step.uid for step in back.model.steps] == [step.uid for step in job().model.steps]


def test_json_without_uids_is_read():
    value = job().to_json()
    for step in value["steps"]:
        del step["uid"]
    assert ms.Job.from_json(value).model == job().model


YAML = """
job: job
steps:
  - source: new-in
    uid: in
    from: {memory: {rows: []}}
    schema: k string, v long, at long
  - event_time: at
    id: new-time
    uid: time
  - aggregate: {n: count()}
    key_by: k
    id: new-sums
    uid: sums
  - aggregate: {n: count()}
    input: new-time
    key_by: k
    window: {tumbling: 1m}
    id: new-windows
    uid: windows
  - reduce: tests.unit.api.test_uid:add
    input: new-time
    key_by: k
    id: new-reduce
    uid: reduce
  - process: tests.unit.api.test_uid:Counter
    input: new-time
    key_by: k
    schema: k string, v long, at long
    id: new-process
    uid: process
  - sink: new-out
    to: {collect: {name: o}}
    uid: out
"""


def test_job_files_have_it():
    steps = load_job(YAML).model.steps
    assert [step.uid for step in steps] == ["in", "time", "sums", "windows", "reduce", "process", "out"]
    assert all(step.id == f"new-{step.uid}" for step in steps)


def test_a_column_cannot_take_its_place():
    with pytest.raises(InvalidStep, match="cannot make a column named 'uid'"):
        load_job(YAML.replace("{n: count()}", "{uid: count()}", 1))


def test_explain_shows_a_uid_that_differs():
    stream = rows(name="renamed", uid="in")
    stream.sink("out", ms.collect("o"))
    text = stream._job.explain("stream")
    assert "  uid        in" in text
    assert text.count("  uid ") == 1
