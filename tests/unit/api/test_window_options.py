"""Windows, triggers and evictors as values: what is refused, what survives JSON and job files, what plans say."""

import json
import subprocess
import sys

import cloudpickle
import pytest
from tests.unit.plan.window_jobs import EARLY, WRITTEN, every_window

import millstream as ms
from millstream.api.jobfile.load import load_job
from millstream.errors import InvalidStep
from millstream.plan.explain import explain
from millstream.plan.serialize import from_json, to_json
from millstream.runtime.operators.kinds import stores_of

SCHEMA = "user string, amount long, at long, note string"
FIRE = ms.TriggerResult.FIRE


class Plain(ms.Trigger):
    def on_row(self, row, window, ctx):
        return FIRE


class Expiring(Plain):
    held = ms.ValueState(int, ttl="1h")


class Kept(ms.WindowFunction):
    held = ms.window_state(ms.ValueState(int))

    def process(self, key, window, rows, ctx):
        return rows


def keyed(*, timed=True):
    rows = ms.Job("windows").source("in", ms.memory([]), schema=SCHEMA)
    return (rows.event_time("at") if timed else rows).key_by("user")


def closed(window, *, timed=True, **options):
    return keyed(timed=timed).window(window, **options).aggregate(n=ms.count(), id="w")


HOUR, COUNT, GLOBAL = ms.tumbling("1h"), ms.count_window(2), ms.global_window()
CLOCK = ms.tumbling("1h", time="processing")
REFUSED = {
    "unknown time": ("STEP-120", lambda: ms.tumbling("1h", time="ingestion")),
    "zone of hours": ("STEP-121", lambda: ms.tumbling("1h", time_zone="Europe/Berlin")),
    "zone of a slide of hours": ("STEP-121", lambda: ms.sliding("1d", "6h", time_zone="Europe/Berlin")),
    "unknown zone": ("STEP-121", lambda: ms.tumbling("1d", time_zone="Europe/Nowhere")),
    "zone that is a path": ("STEP-121", lambda: ms.tumbling("1d", time_zone="../etc/passwd")),
    "count of zero": ("STEP-122", lambda: ms.count_window(0)),
    "count of a duration": ("STEP-122", lambda: ms.count_window("1m")),
    "slide of zero": ("STEP-122", lambda: ms.count_window(3, 0)),
    "global without a trigger": ("STEP-123", lambda: closed(GLOBAL)),
    "global by the clock": ("STEP-123", lambda: closed(GLOBAL, trigger=ms.trigger.processing_time())),
    "lateness of the clock": ("STEP-123", lambda: closed(CLOCK, allowed_lateness="1m")),
    "lateness of counts": ("STEP-123", lambda: closed(COUNT, allowed_lateness="1m")),
    "count with a trigger": ("STEP-123", lambda: closed(COUNT, trigger=ms.trigger.count(2))),
    "count with an evictor": ("STEP-123", lambda: closed(COUNT, evictor=ms.evictor.count(2))),
    "count that discards": ("STEP-123", lambda: closed(COUNT, accumulation="discarding")),
    "clock that ends in event time": ("STEP-123", lambda: closed(CLOCK, trigger=ms.trigger.event_time())),
    "late without lateness": ("STEP-123", lambda: closed(HOUR, trigger=EARLY)),
    "join with a trigger": (
        "STEP-123",
        lambda: keyed().window(HOUR, trigger=ms.trigger.count(2)).join(keyed(), id="j"),
    ),
    "not a trigger": ("STEP-124", lambda: closed(HOUR, trigger="count")),
    "count of no rows": ("STEP-124", lambda: ms.trigger.count(0)),
    "purging twice": ("STEP-124", lambda: ms.trigger.purging(ms.trigger.purging(ms.trigger.count(1)))),
    "trigger with state that expires": ("STEP-124", lambda: closed(GLOBAL, trigger=Expiring)),
    "early of a count": ("STEP-124", lambda: ms.trigger.count(1).early(ms.trigger.count(2))),
    "early at the end": ("STEP-124", lambda: ms.trigger.event_time().early(ms.trigger.processing_time())),
    "every of unknown time": ("STEP-124", lambda: ms.trigger.every("1s", time="wall")),
    "sessions with a trigger that cannot merge": ("STEP-126", lambda: closed(ms.session("1m"), trigger=Plain)),
    "sessions with an early trigger that cannot merge": (
        "STEP-126",
        lambda: closed(ms.session("1m"), trigger=ms.trigger.event_time().early(ms.trigger.custom(Plain))),
    ),
    "sessions with state that cannot merge": (
        "STEP-126",
        lambda: keyed().window(ms.session("1m")).process(Kept, schema=SCHEMA, id="w"),
    ),
    "not an evictor": ("STEP-127", lambda: closed(HOUR, evictor=3)),
    "evictor of no rows": ("STEP-127", lambda: ms.evictor.count(0)),
    "evictor at an unknown time": ("STEP-127", lambda: ms.evictor.count(1, when="between")),
    "delta without a threshold": ("STEP-127", lambda: ms.evictor.delta("amount", 0)),
    "delta of text": ("STEP-128", lambda: closed(HOUR, evictor=ms.evictor.delta("note", 1))),
    "delta of nothing": ("STEP-128", lambda: closed(HOUR, evictor=ms.evictor.delta("price", 1))),
    "unknown accumulation": ("STEP-129", lambda: closed(HOUR, accumulation="adding")),
    "retracting": ("STEP-129", lambda: closed(HOUR, accumulation="retracting")),
    "window state of a type": ("STEP-130", lambda: ms.window_state(int)),
    "window state that expires": ("STEP-130", lambda: ms.window_state(ms.ValueState(int, ttl="1h"))),
    "outputs of a plain function": (
        "STEP-130",
        lambda: keyed().window(HOUR).process(lambda k, w, r: r, schema=SCHEMA, outputs={"x": SCHEMA}, id="w"),
    ),
    "a pane by name": ("STEP-132", lambda: keyed().window(HOUR).aggregate(n=ms.count(), pane="early", id="w")),
    "event time without event time": ("STEP-040", lambda: closed(HOUR, timed=False)),
    "firings of event time without it": (
        "STEP-040",
        lambda: closed(GLOBAL, timed=False, trigger=ms.trigger.every("1s", time="event")),
    ),
    "join of days of a zone": (
        "STEP-080",
        lambda: keyed().window(ms.tumbling("1d", time_zone="UTC")).join(keyed(), id="j"),
    ),
    "late output of counts": ("STEP-066", lambda: closed(COUNT).late),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name):
    code, build = REFUSED[name]
    with pytest.raises(InvalidStep) as caught:
        build()
    assert caught.value.code == code
    assert caught.value.hint


def test_panes_stand_beside_aggregates_only():
    model = closed(HOUR)._job.to_json()
    model["steps"][-1] |= {"aggregates": [], "reduce": "tests.unit.plan.window_jobs:latest", "pane": True}
    with pytest.raises(InvalidStep) as caught:
        ms.Job.from_json(model)
    assert caught.value.code == "STEP-132"


@pytest.mark.parametrize("window", [COUNT, CLOCK, ms.session("1m", time="processing")], ids=lambda w: w.describe())
def test_windows_that_need_no_event_time(window):
    assert closed(window, timed=False).schema.names[-1] == "n"


def test_columns_of_windows_with_and_without_bounds():
    assert closed(COUNT).schema.names == ("user", "n")
    with_pane = keyed().window(GLOBAL, trigger=ms.trigger.count(1)).aggregate(n=ms.count(), pane=True)
    assert with_pane.schema.ddl == "user string, pane_index long not null, pane_timing string not null, n long not null"
    assert closed(CLOCK).schema.names == ("user", "window_start", "window_end", "n")


def test_the_default_trigger_by_name_is_the_default():
    for window, trigger in ((HOUR, ms.trigger.event_time()), (CLOCK, ms.trigger.processing_time())):
        operation = closed(window, trigger=trigger)._job.model.steps[-1].operation
        assert operation == closed(window)._job.model.steps[-1].operation
        assert operation.trigger is None


def test_a_job_file_and_python_give_equal_models():
    assert ms.load_job(WRITTEN).model == every_window().model


def test_every_window_survives_json():
    job = every_window()
    again = ms.Job.from_json(json.loads(json.dumps(job.to_json())))
    assert again.model == job.model
    layers = job.compile()
    assert from_json(json.loads(json.dumps(to_json(layers)))) == layers


def test_states_keep_their_order_when_code_is_sent_to_workers():
    """Classes that cannot be imported are sent by value, and arrive with their attributes sorted by name."""

    class Sent(ms.Trigger):
        zone = ms.ValueState(int)
        area = ms.ValueState(str)

        def on_row(self, row, window, ctx):
            return FIRE

    class Called(ms.WindowFunction):
        zone = ms.window_state(ms.ValueState(int))
        area = ms.window_state(ms.ValueState(str))
        last = ms.ValueState(int)
        first = ms.ValueState(str)

        def process(self, key, window, rows, ctx):
            return rows

    stream = keyed().window(HOUR, trigger=Sent).process(Called, schema=SCHEMA, id="w")
    node = stream._node
    found = subprocess.run(
        [sys.executable, "-c", ON_A_WORKER], input=cloudpickle.dumps(node), capture_output=True, check=True
    )
    written, kept, slots = json.loads(found.stdout)
    assert written == ["area", "zone"], "the class itself has lost the order, or this shows nothing"
    assert kept == [["zone", "area"], ["zone", "area"], ["last", "first"]]
    assert slots == [str(slot.content) for slot in stores_of(node)[0].content]


ON_A_WORKER = """
import json, sys
import cloudpickle
from millstream.runtime.operators.kinds import stores_of
node = cloudpickle.loads(sys.stdin.buffer.read())
operation = node.operation
kept = [operation.trigger.states, operation.window_states, operation.key_states]
written = [state.name for state in operation.process.target.window_descriptors()]
slots = [str(slot.content) for slot in stores_of(node)[0].content]
print(json.dumps([written, [[state.name for state in some] for some in kept], slots]))
"""


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("trigger", {"kind": "count"}),
        ("trigger", {"kind": "sometimes"}),
        ("trigger", {"kind": "count", "rows": "2"}),
        ("trigger", {"kind": "count", "rows": 2, "until": 3}),
        ("trigger", "count"),
        ("evictor", {"kind": "count", "rows": 0}),
        ("evictor", {"kind": "count", "rows": 2.5}),
        ("evictor", {"kind": "delta", "column": "amount", "threshold": "x"}),
        ("evictor", {"rows": 2}),
    ],
)
def test_broken_json_is_refused(field, value):
    model = every_window().to_json()
    step = next(step for step in model["steps"] if step["id"] == "last")
    step[field] = value
    with pytest.raises(InvalidStep) as caught:
        ms.Job.from_json(model)
    assert caught.value.code in {"STEP-124", "STEP-125", "STEP-127"}


WITHOUT_WINDOW = "aggregate: {n: count()}, input: timed, key_by: user, id: counted, pane: true"


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("{count: 4, slide: 2}", "{count: 4, size: 2}", "DECL-004"),
        ("{count: 4, slide: 2}", "{count: 4, session: 2s}", "DECL-006"),
        ("window: global", "window: globe", "DECL-006"),
        ("trigger: processing_time", "trigger: sometimes", "DECL-006"),
        ("{every: 10s, time: event}", "{every: 10s, clock: event}", "DECL-004"),
        ("{early: {every: 10s}", "{soon: {every: 10s}", "DECL-004"),
        ("evictor: {count: 3}", "evictor: {counts: 3}", "DECL-006"),
        ("threshold: 1.5", "when: after", "DECL-006"),
        ("<<: *days, id: counted, window: {count: 4, slide: 2}", WITHOUT_WINDOW, "DECL-004"),
        ("aggregate: {n: count()}", "aggregate: {pane: count()}", "DECL-009"),
    ],
)
def test_job_files_refuse_what_they_do_not_know(old, new, code):
    assert old in WRITTEN
    with pytest.raises(InvalidStep) as caught:
        ms.load_job(WRITTEN.replace(old, new, 1))
    assert caught.value.code == code


def test_plans_say_when_windows_fire():
    text = explain(every_window().compile(), "stream")
    for line in (
        "window     tumbling(7d, offset 4d, Europe/Berlin), allowed lateness 0s",
        "window     sliding(20s, every 10s, processing time)",
        "window     session(gap 15s, processing time)",
        "window     count(4 rows, every 2)",
        "window     global",
        "trigger    end of event time, early every 10s of processing time, late every 2 rows, purging",
        "trigger    tests.unit.plan.window_jobs:Limit",
        "firings    discarding",
        "evictor    the last 3 rows",
        "evictor    the last 5s, after each firing",
        "evictor    amount within 1.5 of the last row",
        "state      windows: value of int, per key",
        "state      shown: value of int, per window",
    ):
        assert line in text


def test_windows_of_a_job_file_are_ranked():
    text = """
job: ranked
steps:
  - source: in
    from: {memory: {rows: []}}
    schema: k string, at long
  - event_time: at
  - top_n: 2
    id: best
    key_by: k
    by: at desc
    rank: place
    window: {cumulative: 1h, step: 10m, offset: -5m}
    allowed_lateness: 1m
  - deduplicate: last
    id: last
    input: in.event_time
    key_by: k
    window: {tumbling: 1h}
  - sink: out
    to: {collect: {name: x}}
"""
    steps = {step.id: step.operation for step in load_job(text).model.steps}
    assert steps["best"].window == ms.cumulative("1h", "10m", offset="-5m")
    assert (steps["best"].n, steps["best"].rank, steps["best"].lateness) == (2, "place", 60_000)
    assert steps["last"].newest_first
    for line in ("emit: end", "ttl: 1s"):
        with pytest.raises(InvalidStep, match="cannot be used in deduplicate steps with window"):
            load_job(text.replace("{tumbling: 1h}", f"{{tumbling: 1h}}\n    {line}"))
    with pytest.raises(InvalidStep, match="cumulative"):
        load_job(text.replace(", step: 10m", ""))
