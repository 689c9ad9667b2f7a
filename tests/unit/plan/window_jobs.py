"""A job with every kind of window, trigger and evictor, whose functions can be imported by name."""

import millstream as ms

SCHEMA = "user string, amount long, at long"


class Limit(ms.Trigger):
    held = ms.ValueState(int)

    def on_row(self, row, window, ctx):
        return ms.TriggerResult.FIRE

    def on_merge(self, window, ctx):
        self.held.update(sum(ctx.merged(self.held)))


class Stated(ms.WindowFunction):
    shown = ms.window_state(ms.ValueState(int))
    windows = ms.ValueState(int, ttl="1d")

    def process(self, key, window, rows, ctx):
        yield {"user": key["user"], "n": len(rows)}


def latest(held, row):
    return row


def chosen(rows, window):
    return rows[:1]


def apart(row, last):
    return abs(row["amount"] - last["amount"])


EARLY = ms.trigger.event_time().early(ms.trigger.every("10s")).late(ms.trigger.purging(ms.trigger.count(2)))


def every_window():
    job = ms.Job("every-window")
    rows = job.source("orders", ms.memory([]), schema=SCHEMA).event_time("at", id="timed")
    keyed = rows.key_by("user")
    for name, window, options in (
        ("days", ms.tumbling("7d", time_zone="Europe/Berlin", offset="4d"), {}),
        ("clock", ms.sliding("20s", "10s", time="processing"), {}),
        ("quiet", ms.session("15s", time="processing"), {}),
        ("counted", ms.count_window(4, 2), {}),
        ("early", ms.tumbling("1h"), {"trigger": EARLY, "allowed_lateness": "1m"}),
        ("watermark", ms.session("1m"), {"trigger": ms.trigger.every("10s", time="event")}),
        ("limit", ms.session("1m"), {"trigger": ms.trigger.custom(Limit), "accumulation": "discarding"}),
        ("last", ms.global_window(), {"trigger": ms.trigger.count(2), "evictor": ms.evictor.count(3)}),
        ("recent", ms.tumbling("1h"), {"evictor": ms.evictor.time("5s", when="after")}),
        ("near", ms.tumbling("1h"), {"evictor": ms.evictor.delta("amount", 1.5)}),
        ("apart", ms.tumbling("1h"), {"evictor": ms.evictor.delta(apart, 2)}),
    ):
        keyed.window(window, **options).aggregate(n=ms.count(), pane=name == "early", id=name).sink(
            f"{name}-out", ms.collect(name)
        )
    ended = keyed.window(ms.tumbling("1h"), trigger=ms.trigger.processing_time(), evictor=ms.evictor.custom(chosen))
    ended.reduce(latest, id="ended").sink("ended-out", ms.collect("e"))
    stated = keyed.window(ms.tumbling("1h")).process(
        Stated, schema="user string, n long", outputs={"side": "n long"}, id="stated"
    )
    stated.sink("stated-out", ms.collect("s"))
    stated.side_output("side").sink("side-out", ms.collect("s"))
    return job


WRITTEN = """
job: every-window
steps:
  - source: orders
    from: {memory: {rows: []}}
    schema: user string, amount long, at long
  - event_time: at
    id: timed
  - &days
    aggregate: {n: count()}
    input: timed
    key_by: user
    id: days
    window: {tumbling: 7d, time_zone: Europe/Berlin, offset: 4d}
  - sink: days-out
    to: {collect: {name: days}}
  - {<<: *days, id: clock, window: {sliding: 20s, slide: 10s, time: processing}}
  - sink: clock-out
    to: {collect: {name: clock}}
  - {<<: *days, id: quiet, window: {session: 15s, time: processing}}
  - sink: quiet-out
    to: {collect: {name: quiet}}
  - {<<: *days, id: counted, window: {count: 4, slide: 2}}
  - sink: counted-out
    to: {collect: {name: counted}}
  - <<: *days
    id: early
    window: {tumbling: 1h}
    allowed_lateness: 1m
    trigger: {event_time: {early: {every: 10s}, late: {purging: {count: 2}}}}
    pane: true
  - sink: early-out
    to: {collect: {name: early}}
  - {<<: *days, id: watermark, window: {session: 1m}, trigger: {every: 10s, time: event}}
  - sink: watermark-out
    to: {collect: {name: watermark}}
  - <<: *days
    id: limit
    window: {session: 1m}
    trigger: {custom: "tests.unit.plan.window_jobs:Limit"}
    accumulation: discarding
  - sink: limit-out
    to: {collect: {name: limit}}
  - {<<: *days, id: last, window: global, trigger: {count: 2}, evictor: {count: 3}}
  - sink: last-out
    to: {collect: {name: last}}
  - {<<: *days, id: recent, window: {tumbling: 1h}, evictor: {time: 5s, when: after}}
  - sink: recent-out
    to: {collect: {name: recent}}
  - {<<: *days, id: near, window: {tumbling: 1h}, evictor: {delta: amount, threshold: 1.5}}
  - sink: near-out
    to: {collect: {name: near}}
  - {<<: *days, id: apart, window: {tumbling: 1h}, evictor: {delta: "tests.unit.plan.window_jobs:apart", threshold: 2}}
  - sink: apart-out
    to: {collect: {name: apart}}
  - reduce: tests.unit.plan.window_jobs:latest
    input: timed
    key_by: user
    id: ended
    window: {tumbling: 1h}
    trigger: processing_time
    evictor: {custom: "tests.unit.plan.window_jobs:chosen"}
  - sink: ended-out
    to: {collect: {name: e}}
  - process: tests.unit.plan.window_jobs:Stated
    input: timed
    key_by: user
    id: stated
    window: {tumbling: 1h}
    schema: user string, n long
    outputs: {side: n long}
  - sink: stated-out
    to: {collect: {name: s}}
  - sink: side-out
    input: stated.side
    to: {collect: {name: s}}
"""
