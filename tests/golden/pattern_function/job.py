"""Three failed logins and then a good one, with a condition over earlier rows in Python, and a function of the match."""

import millstream as ms

ORDER_KEY = {"out": ["user"]}


def from_the_same_place(row, context):
    return all(row["place"] == earlier["place"] for earlier in context.events("failed"))


def alarm(match, info):
    yield {"user": info.key["user"], "tries": [row["n"] for row in match["failed"]], "then": match["good"][0]["n"]}


def job():
    job = ms.Job("pattern-function")
    rows = job.source("in", ms.memory([]), schema="user string, n long, what string, place string, at long")
    rows = rows.event_time("at", max_delay="5m")
    pattern = (
        ms.pattern.begin("failed")
        .where("what = 'failed'")
        .where(from_the_same_place)
        .times(3)
        .followed_by("good")
        .where("what = 'good'")
        .within("1m")
        .skip_past_last_event()
    )
    made = rows.key_by("user").pattern(pattern)
    made.process(alarm, schema="user string, tries array<long>, then long", id="alarms").sink("out", ms.collect("out"))
    return job
