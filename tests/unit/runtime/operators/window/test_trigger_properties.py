"""Whatever the window, trigger, accumulation and evictor: cuts, crashes and parallelism do not change what a key gives.

Watermarks and the clock stand in the script, so that time goes on between the same rows however the run is cut.
"""

from collections import defaultdict

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import millstream as ms
from millstream.testing import ABORT, ADVANCE_CLOCK, WATERMARK, run_job

SCHEMA = "key string, value long, at long"
RUN = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
FIRE, CONTINUE, PURGE = ms.TriggerResult.FIRE, ms.TriggerResult.CONTINUE, ms.TriggerResult.FIRE_AND_PURGE


class Sums(ms.Trigger):
    """Fires when the values reach a limit, purges at zero, and asks for timers of both kinds."""

    total = ms.ValueState(int)
    seen = ms.ListState(int)

    def on_row(self, row, window, ctx):
        self.total.update((self.total.value() or 0) + row["value"])
        self.seen.add(row["at"])
        ctx.event_timer(row["at"] + 3)
        ctx.processing_timer(ctx.now + 2)
        return PURGE if row["value"] == 0 else FIRE if self.total.value() > 10 else CONTINUE

    def on_event_time(self, time, window, ctx):
        return FIRE if time - 3 in self.seen.get() else CONTINUE

    def on_processing_time(self, time, window, ctx):
        self.total.clear()
        return CONTINUE

    def on_merge(self, window, ctx):
        self.total.update(sum(ctx.merged(self.total)))
        self.seen.update([at for some in ctx.merged(self.seen) for at in some])
        for at in self.seen.get():
            ctx.event_timer(at + 3)


class Shown(ms.WindowFunction):
    panes = ms.window_state(ms.ListState(int))
    calls = ms.ValueState(int)

    def process(self, key, window, rows, ctx):
        self.calls.update((self.calls.value() or 0) + 1)
        self.panes.add(len(rows))
        assert len(self.panes.get()) <= ctx.pane.index + 1
        values = [row["value"] for row in rows]
        end = window.max_timestamp
        yield {
            "key": key["key"],
            "end": end,
            "values": values,
            "pane": f"{ctx.pane.index} {ctx.pane.timing} {self.calls.value()}",
        }

    def on_merge(self, window, ctx):
        self.panes.update([count for some in ctx.merged(self.panes) for count in some])

    def clear(self, ctx):
        ctx.output("gone", {"key": ctx.key[0], "panes": self.panes.get()})


def merged_triggers(*, late):
    count, clock, event = ms.trigger.count(2), ms.trigger.every(0.006), ms.trigger.every(0.005, time="event")
    early = st.sampled_from([count, clock, event, ms.trigger.purging(count), ms.trigger.custom(Sums)])
    phased = early.map(lambda trigger: ms.trigger.event_time().early(trigger))
    if late:
        phased |= st.tuples(early, early).map(lambda pair: ms.trigger.event_time().early(pair[0]).late(pair[1]))
    return early | phased | st.sampled_from([ms.trigger.processing_time(), ms.trigger.purging(ms.trigger.event_time())])


@st.composite
def options(draw):
    """A window with options that go together."""
    kind = draw(st.sampled_from(["tumbling", "sliding", "session", "clock", "quiet", "global"]))
    accumulation = draw(st.sampled_from(["accumulating", "discarding"]))
    evictors = [None, ms.evictor.count(2), ms.evictor.time(0.004), ms.evictor.delta("value", 3, when="after")]
    made = {"accumulation": accumulation, "evictor": draw(st.sampled_from(evictors))}
    if kind in {"tumbling", "sliding", "session"}:
        lateness = draw(st.sampled_from([0, 0.007]))
        trigger = draw(st.none() | merged_triggers(late=bool(lateness)))
        window = {"tumbling": ms.tumbling(0.01), "sliding": ms.sliding(0.01, 0.005), "session": ms.session(0.004)}[kind]
        return {**made, "window": window, "trigger": trigger, "allowed_lateness": lateness}
    plain = [ms.trigger.count(2), ms.trigger.every(0.006), ms.trigger.custom(Sums)]
    if kind == "global":
        return {
            **made,
            "window": ms.global_window(),
            "trigger": draw(st.sampled_from([*plain, ms.trigger.event_time()])),
        }
    window = ms.tumbling(0.01, time="processing") if kind == "clock" else ms.session(0.005, time="processing")
    return {**made, "window": window, "trigger": draw(st.sampled_from([None, *plain]))}


rows = st.builds(
    lambda key, value, at: {"key": key, "value": value, "at": at},
    st.sampled_from(["a", "b", None]),
    st.integers(0, 6),
    st.integers(0, 30),
)
script_ = st.lists(st.one_of(rows, rows, rows, st.integers(1, 9), st.integers(-9, -1)), max_size=25)
cuts = st.fixed_dictionaries({"parallelism": st.integers(1, 4), "rows_per_epoch": st.integers(1, 8)})


def played(marks):
    """Numbers above zero move the watermark on, those below zero the clock."""
    script, mark = [], 0
    for item in marks:
        if isinstance(item, dict):
            script.append(item)
        elif item > 0:
            mark += item
            script.append(WATERMARK(mark))
        else:
            script.append(ADVANCE_CLOCK(-item / 1000))
    return script


def job_of(given_options):
    job = ms.Job("triggers")
    keyed = job.source("in", ms.memory([]), schema=SCHEMA).event_time("at", max_delay="1h").key_by("key")
    window = keyed.window(given_options["window"], **{k: v for k, v in given_options.items() if k != "window"})
    called = window.process(
        Shown,
        schema="key string, end long, values array<long>, pane string",
        outputs={"gone": "key string, panes array<long>"},
        id="called",
    )
    called.sink("called-out", ms.collect("c"))
    called.side_output("gone").sink("gone-out", ms.collect("g"))
    sums = window.aggregate(n=ms.count(), total=ms.sum("value"), last=ms.last("value"), pane=True, id="sums")
    sums.sink("sums-out", ms.collect("s"))
    return job


def by_key(output):
    groups = defaultdict(list)
    for sink, found in output.sinks.items():
        for row in found:
            groups[sink, row["key"]].append(row)
    return groups


@RUN
@given(given_options=options(), marks=script_, cut=cuts, crash=st.integers(0, 25))
def test_what_a_key_gives_depends_on_its_rows_and_on_time_alone(given_options, marks, cut, crash):
    script = played(marks)
    whole = run_job(job_of(given_options), {"in": script}, parallelism=1, rows_per_epoch=1000)
    pieces = run_job(job_of(given_options), {"in": [*script[:crash], ABORT(), *script[crash:]]}, **cut)
    assert by_key(pieces) == by_key(whole)
    assert all(counts.is_balanced for counts in whole.counts.values()), whole.counts
