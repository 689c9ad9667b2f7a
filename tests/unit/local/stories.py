"""A job with state of every kind, runs of it that are asked for something on the way, and what it published."""

import dataclasses
from collections import Counter

import millstream as ms
from millstream.api.running.control import RunControl
from millstream.api.running.result import RunResult
from millstream.connectors.collect.sink import collected
from millstream.local.run import run
from millstream.plan.deployment import Deployment
from millstream.plan.start import Start
from millstream.testing import ADVANCE_CLOCK

CLOCK = dict(ADVANCE_CLOCK("1s"))
ROWS = [{"k": "abcde"[i % 5], "at": 70 * i % 500 + 10 * i, "v": i} for i in range(40)]
SCRIPT = [*ROWS[:12], CLOCK, *ROWS[12:24], CLOCK, *ROWS[24:36], CLOCK, *ROWS[36:], CLOCK]
SINKS = ("seen", "bins", "sessions", "totals")


class Seen(ms.ProcessFunction):
    """Keeps a sum and, for a while, the last value; a timer of each kind tells of them."""

    total = ms.ValueState(int)
    recent = ms.MapState(str, int, ttl="1500ms")

    def process(self, row, ctx):
        self.total.update((self.total.value() or 0) + row["v"])
        self.recent.put(str(row["v"]), row["v"])
        ctx.event_timer(row["at"] + 250)
        ctx.processing_timer(ctx.now + 1200)
        yield {"k": row["k"], "what": "row", "x": self.total.value()}

    def on_timer(self, timestamp, ctx):
        held = sum(value for _, value in self.recent.items())
        yield {"k": ctx.key[0], "what": "timer", "x": timestamp * 1000 + held}


def story(name, *, script=SCRIPT, parallelism=2, sink=ms.collect):
    """Event time, process function, windows and sessions at level 1, totals of the windows at level 2."""
    job = ms.Job(name, rows_per_epoch=4, parallelism=parallelism)
    rows = job.source("in", ms.memory(script), schema="k string, at long, v long")
    keyed = rows.event_time("at", max_delay="300ms").key_by("k")
    seen = keyed.process(Seen, schema="k string, what string, x long", id="seen")
    bins = keyed.window(ms.sliding("200ms", "50ms")).aggregate(n=ms.count(), total=ms.sum("v"), id="bins")
    sessions = keyed.window(ms.session("60ms")).aggregate(n=ms.count(), last=ms.max("v"), id="sessions")
    totals = bins.key_by("k").aggregate(n=ms.sum("n"), emit="end", id="totals")
    for step, stream in zip(SINKS, (seen, bins, sessions, totals), strict=True):
        stream.sink(f"{step}.out", sink(f"{name}/{step}"))
    return job


def published(name):
    """What the story's sinks hold, by sink, as multisets."""
    return {step: Counter(map(str, collected(f"{name}/{step}"))) for step in SINKS}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Ask:
    """A request, made when an epoch is published (-1: before the first)."""

    after: int
    action: str = "suspend"
    to: str = ""
    form: str = "canonical"
    id: str | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Told:
    """What became of a run and of its requests."""

    result: RunResult
    answers: list
    epochs: list


def standing():
    """The clock of the stories moves by marks alone."""
    return 0


def play(job, checkpoint, *asks, clock=standing, listener=lambda _: None, engine=run, start=None, **restore):
    """Run a job, in this process, and ask for things on the way; `restore` is what `Start` takes."""
    control, pending, epochs = RunControl(), [], []

    def ask_behind(number):
        for each in asks:
            if each.after == number:
                pending.append(control.ask(each.action, to=str(each.to), form=each.form, id=each.id))

    def seen(epoch):
        listener(epoch)
        epochs.append(epoch)
        ask_behind(len(epochs) - 1)

    ask_behind(-1)
    place = None if checkpoint is None else str(checkpoint)
    plan = job.compile(Deployment(checkpoint=place)).deployment
    begin = start or Start(**{name: str(v) if name == "savepoint" else v for name, v in restore.items()})
    result = engine(plan, clock=clock, listener=seen, control=control, start=begin)
    return Told(result=result, answers=[each.wait(0) for each in pending], epochs=epochs)
