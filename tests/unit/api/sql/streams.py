"""Streams that the tests of statements read."""

import millstream as ms

SCHEMA = "user string, x long, y double, at timestamp, tags array<string>, place struct<x:int>"


def streams():
    """A job with two streams; both have event time."""
    job = ms.Job("statements")
    stream = job.source("in", ms.memory([]), schema=SCHEMA).event_time("at", id="timed")
    other = job.source("o", ms.memory([]), schema="id long, w long, ts timestamp").event_time("ts", id="others")
    return job, stream, other


def steps(job):
    """The steps behind the streams, by id."""
    return {step.id: step.operation for step in job.model.steps if step.id not in {"in", "timed", "o", "others"}}
