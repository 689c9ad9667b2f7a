"""Broadcast state: every subtask has the same, only broadcast rows change it, and nothing is emitted twice."""

import pytest

import millstream as ms
from millstream.errors import InvalidStep, StepFailed
from millstream.testing import ADVANCE_CLOCK, run_job

STOP = dict(ADVANCE_CLOCK(0))


def job_of(function, *, keyed=True, on_error="fail", schema="k string, text string"):
    job = ms.Job("broadcast")
    both = job.source("in", ms.memory([]), schema="k string, rule string")
    rules, rows = both.filter("rule is not null", id="rules"), both.filter("k is not null", id="rows")
    stream = rows.key_by("k") if keyed else rows
    made = stream.connect(rules.broadcast()).process(function, schema=schema, on_error=on_error, id="b")
    made.sink("out", ms.collect("x"))
    return job


class Rules(ms.BroadcastFunction):
    rules = ms.BroadcastState(str, int)

    def process(self, row, ctx):
        yield {"k": row["k"], "text": ",".join(f"{name}{n}" for name, n in sorted(self.rules.items()))}

    def process_broadcast(self, row, ctx):
        if row["rule"] == "clear":
            self.rules.clear()
        else:
            self.rules.put(row["rule"], (self.rules.get(row["rule"]) or 0) + 1)


def rule(*names):
    return [{"k": None, "rule": name} for name in names]


def rows(*keys):
    return [{"k": key, "rule": None} for key in keys]


@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize("parallelism", [1, 3])
def test_every_subtask_has_the_same_state(keyed, parallelism):
    keys = [f"k{n}" for n in range(12)]
    script = [*rule("a", "b", "a"), STOP, *rows(*keys), STOP, *rule("clear", "c"), STOP, *rows(*keys)]
    output = run_job(job_of(Rules, keyed=keyed), {"in": script}, parallelism=parallelism)
    texts = [row["text"] for row in output["out"]]
    assert texts == ["a2,b1"] * 12 + ["c1"] * 12
    assert output.counts["b"].rows_in == 24 + 5, "a broadcast row counts once"
    assert output.counts["b"].is_balanced


def test_broadcast_rows_of_an_epoch_come_before_its_rows():
    output = run_job(job_of(Rules), {"in": [*rows("x"), *rule("a")]})
    assert [row["text"] for row in output["out"]] == ["a1"]


class Loud(Rules):
    def process_broadcast(self, row, ctx):
        ctx.output("said", {"text": row["rule"]})
        yield {"k": "-", "text": row["rule"]}


def test_what_a_broadcast_row_gives_is_emitted_once():
    job = ms.Job("broadcast")
    both = job.source("in", ms.memory([]), schema="k string, rule string")
    rules, rows = both.filter("rule is not null", id="rules"), both.filter("k is not null", id="rows")
    made = (
        rows.key_by("k")
        .connect(rules.broadcast())
        .process(Loud, schema="k string, text string", outputs={"said": "text string"}, id="b")
    )
    made.sink("out", ms.collect("x"))
    made.side_output("said").sink("said", ms.collect("y"))
    output = run_job(job, {"in": rule("a", "b")}, parallelism=3)
    assert [row["text"] for row in output["out"]] == ["a", "b"]
    assert [row["text"] for row in output["said"]] == ["a", "b"]
    assert output.counts["b"].rows_out == 4


class Meddler(Rules):
    def process(self, row, ctx):
        self.rules.put("mine", 1)


def test_rows_of_the_stream_may_not_change_it():
    with pytest.raises(StepFailed) as caught:
        run_job(job_of(Meddler), {"in": rows("x")})
    assert caught.value.code == "STATE-006"
    output = run_job(job_of(Meddler, on_error="skip"), {"in": [*rows("x"), STOP, *rows("y")]})
    assert output.counts["b"].skipped == 2


class Timer(Rules):
    def process_broadcast(self, row, ctx):
        ctx.processing_timer(5)


def test_broadcast_rows_have_no_timers():
    with pytest.raises(StepFailed) as caught:
        run_job(job_of(Timer), {"in": rule("a")})
    assert caught.value.code == "RUN-006"


class Keyed(Rules):
    seen = ms.ValueState(int)


def test_refusals():
    with pytest.raises(InvalidStep) as caught:
        job_of(Keyed, keyed=False)
    assert caught.value.code == "STEP-079"
    with pytest.raises(InvalidStep) as caught:
        job_of(ms.CoProcessFunction())
    assert caught.value.code == "STEP-078"
    job = ms.Job("other")
    stream = job.source("in", ms.memory([]), schema="k string")
    with pytest.raises(InvalidStep) as caught:
        stream.connect(stream)
    assert caught.value.code == "STEP-077"
