"""Inputs that fail: how the run of the job ends, and that an input no run can begin with is a bad record."""

import asyncio
import sys

import pytest

import millstream as ms
from millstream.agents import Agent, InputEvent, OutputEvent, action
from millstream.errors import StepFailed
from millstream.testing import run_job


class Leaves(Agent):
    @action(InputEvent)
    def leave(event, ctx):
        sys.exit("enough")


class LeavesLater(Agent):
    @action(InputEvent)
    async def leave(event, ctx):
        await asyncio.sleep(0)
        sys.exit("enough")


class Echo(Agent):
    @action(InputEvent)
    def echo(event, ctx):
        ctx.send_event(OutputEvent({"k": ctx.key}))


def job_of(agent, *, schema="k string", on_error="fail"):
    job = ms.Job("failing")
    rows = job.source("in", ms.memory([]), schema=schema)
    rows.key_by("k").agent(agent, schema="k string", on_error=on_error, id="a").sink("out", ms.collect("out"))
    return job


@pytest.mark.parametrize("on_error", ["fail", "skip"])
@pytest.mark.parametrize("agent", [Leaves, LeavesLater])
def test_who_calls_exit_ends_the_job_and_leaves_the_loop_alone(agent, on_error):
    for _ in range(2):
        with pytest.raises(StepFailed, match="SystemExit: enough"):
            run_job(job_of(agent, on_error=on_error), {"in": [{"k": "a"}]})


def test_an_input_with_no_written_form_is_a_bad_record():
    rows = [{"k": "a", "m": {1: 2}}, {"k": "b", "m": None}]
    schema = "k string, m map<long, long>"
    assert run_job(job_of(Echo, schema=schema, on_error="skip"), {"in": rows}).rows("out") == [{"k": "b"}]
    with pytest.raises(StepFailed, match="the input holds a dict"):
        run_job(job_of(Echo, schema=schema), {"in": rows})
