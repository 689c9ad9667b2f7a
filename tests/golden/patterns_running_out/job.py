"""A replaced pattern runs out: its partial matches go on under the old version, and no further one begins there.

Worked out by hand. Rows of the filler bring the watermark past the rows before them; times are seconds.
"""

import json

import millstream as ms
from millstream.testing import ADVANCE_CLOCK

ORDER_KEY = {"out": ["rule", "user"]}
STOP = dict(ADVANCE_CLOCK("10s"))


def definition(second):
    stages = [{"begin": "a", "where": "amount > 10"}, {"followed_by": "b", "where": second}]
    measures = {"from": "a.amount", "to": "b.amount"}
    return json.dumps({"pattern": stages, "within": "60s", "measures": measures, "timed_out": {"since": "a.amount"}})


def row(user, amount, at):
    return {"user": user, "amount": amount, "at": at * 1000}


def inputs():
    rise, fall = definition("amount > a.amount"), definition("amount < a.amount")
    script = [{"rule": "move", "pattern": rise}, STOP]
    script += [row("ada", 11, 1000), row("bob", 20, 1001), row("filler", 0, 1030), STOP]
    script += [{"rule": "move", "pattern": fall}, STOP]
    script += [row("ada", 12, 1040), row("ada", 9, 1050), row("ada", 13, 1055), row("filler", 0, 1200), STOP]
    script += [row("ada", 30, 1300), row("ada", 31, 1301), row("ada", 25, 1302)]
    return {"in": script}


def expected():
    matches = [(1, 11, 12), (2, 12, 9), (2, 30, 25), (2, 31, 25)]
    out = [
        {"rule": "move", "version": version, "user": "ada", "match": f'{{"from":{first},"to":{then}}}'}
        for version, first, then in matches
    ]
    # bob's 20 waits under the old version until its time is over; 13 and 25 find nothing lower in time.
    waits = [(1, "bob", 20), (2, "ada", 13), (2, "ada", 25)]
    return {
        "out": out,
        "open": [{"rule": "move", "version": v, "user": user, "match": f'{{"since":{n}}}'} for v, user, n in waits],
    }


def job():
    job = ms.Job("patterns-running-out")
    both = job.source("in", ms.memory([]), schema="rule string, pattern string, user string, amount long, at long")
    rules = both.filter("rule is not null", id="brought").select("rule", "pattern", id="rules")
    rows = both.filter("user is not null", id="used").select("user", "amount", "at", id="rows").event_time("at")
    found = rows.key_by("user").patterns(rules.broadcast(), on_update="keep", id="found")
    found.sink("out", ms.collect("out"))
    found.side_output("timed_out").sink("open", ms.collect("open"))
    return job
