"""What of a triggered window may change between runs, and what state cannot outlive."""

import pytest

import millstream as ms
from millstream.jobmaster.compatibility import compare, shape_of

SCHEMA = "k string, v long, at long"
FIRE = ms.TriggerResult.FIRE


class Limit(ms.Trigger):
    held = ms.ValueState(int)

    def on_row(self, row, window, ctx):
        return FIRE


class Texts(ms.Trigger):
    held = ms.ValueState(str)

    def on_row(self, row, window, ctx):
        return FIRE


class Kept(ms.WindowFunction):
    shown = ms.window_state(ms.ValueState(int))
    windows = ms.ValueState(int)

    def process(self, key, window, rows, ctx):
        return rows


class MoreOfTheKey(Kept):
    more = ms.ValueState(str)


class OtherOfTheWindow(Kept):
    shown = ms.window_state(ms.ValueState(str))


BASE = {
    "window": ms.tumbling("1m"),
    "lateness": 0,
    "trigger": ms.trigger.event_time().early(ms.trigger.count(2)),
    "accumulation": "accumulating",
    "evictor": None,
    "pane": False,
    "function": None,
}


def shape(**changes):
    given = BASE | changes
    job = ms.Job("job")
    keyed = job.source("in", ms.memory([]), schema=SCHEMA).event_time("at").key_by("k")
    window = keyed.window(
        given["window"],
        allowed_lateness=given["lateness"],
        trigger=given["trigger"],
        accumulation=given["accumulation"],
        evictor=given["evictor"],
    )
    if given["function"] is None:
        window.aggregate(n=ms.count(), pane=given["pane"], id="w").sink("out", ms.collect("o"))
    else:
        window.process(given["function"], schema=SCHEMA, id="w").sink("out", ms.collect("o"))
    return shape_of(job.compile().deployment)


def verdict(before, after):
    line = next(line for line in compare(shape(**before), shape(**after)).lines if line.kind == "state")
    return line.level, [str(change) for change in line.changes]


def early(trigger):
    return {"trigger": ms.trigger.event_time().early(trigger)}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, {}),
        ({}, early(ms.trigger.count(3))),
        ({}, {"lateness": "1m"}),
        ({}, {"pane": True}),
        (early(ms.trigger.every("1s")), early(ms.trigger.every("5s"))),
        ({"evictor": ms.evictor.count(2)}, {"evictor": ms.evictor.time("5s")}),
        ({"trigger": ms.trigger.event_time()}, {"trigger": None}),
    ],
)
def test_what_may_change(before, after):
    assert verdict(before, after) == ("identical", [])


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        ({}, {"accumulation": "discarding"}, "accumulation: accumulating → discarding"),
        ({}, {"trigger": ms.trigger.count(2)}, "trigger: event_time(early count) → count"),
        ({}, early(ms.trigger.every("1s")), "trigger: event_time(early count) → event_time(early every processing)"),
        ({}, {"trigger": None}, "form: entries → columns"),
        ({}, {"trigger": None, "pane": True}, "trigger: event_time(early count) → default"),
        ({}, {"evictor": ms.evictor.count(2)}, "keeps: results → rows"),
        ({}, {"window": ms.tumbling("1m", time="processing"), "trigger": None}, "window time: nothing → processing"),
        (
            {"window": ms.tumbling("1d")},
            {"window": ms.tumbling("1d", time_zone="UTC")},
            "window time_zone: nothing → UTC",
        ),
        ({"trigger": Limit}, {"trigger": Texts}, "trigger: custom(held value int v1) → custom(held value str v1)"),
        (
            {"window": ms.count_window(4), "trigger": None},
            {"window": ms.count_window(5), "trigger": None},
            "window rows: 4 → 5",
        ),
        ({"function": Kept}, {"function": OtherOfTheWindow}, "window_states"),
    ],
)
def test_what_state_cannot_outlive(before, after, change):
    level, changes = verdict(before, after)
    assert level == "incompatible"
    assert any(text.startswith(change) for text in changes), changes


@pytest.mark.parametrize(
    ("changes", "is_same"),
    [
        ({}, True),
        (early(ms.trigger.count(3)), True),
        ({"lateness": "1m"}, True),
        ({"accumulation": "discarding"}, False),
        (early(ms.trigger.every("1s")), False),
        ({"window": ms.sliding("1m", "30s")}, False),
    ],
)
def test_fingerprints_see_the_same(changes, is_same):
    assert (shape(**changes).fingerprint == shape().fingerprint) is is_same


def test_the_states_of_a_key_evolve_as_those_of_a_process_function_do():
    assert verdict({"function": Kept}, {"function": MoreOfTheKey}) == ("compatible", ["more: nothing → string"])


def test_windows_of_older_checkpoints_are_described_as_before():
    layout = shape(trigger=None).layouts["w"]
    assert layout.settings["window"] == {"kind": "tumbling", "size": 60_000, "slide": 60_000, "offset": 0, "gap": 0}
    assert set(layout.settings) == {"window", "closed_by", "aggregates"}
