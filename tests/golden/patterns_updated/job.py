"""Patterns come, are replaced and go while rows flow: without event time, so a row meets what is in force when it comes.

Worked out by hand: each user sees the same amounts, and epochs are kept apart by the clock.
"""

import json

import millstream as ms
from millstream.testing import ADVANCE_CLOCK

ORDER_KEY = {"out": ["rule", "user"]}
STOP = dict(ADVANCE_CLOCK("10s"))
USERS = ("ada", "bob", "cy", "dee")
MEASURES = {"low": "least(a.amount, b.amount)", "high": "greatest(a.amount, b.amount)"}


def pair(second):
    stages = [{"begin": "a", "where": "amount > 10"}, {"next": "b", "where": second}]
    return json.dumps({"pattern": stages, "measures": MEASURES})


RISE, FALL = pair("amount > a.amount"), pair("amount < a.amount")
SPIKE = "pattern: [{begin: x, where: amount >= 100}]\nmeasures: {n: count(x)}\n"
CODE = json.dumps({"pattern": [{"begin": "a", "where": {"function": "os:getcwd"}}], "measures": {"n": "count(a)"}})


def update(rule, pattern=None, version=None, deleted=None):
    return {"rule": rule, "pattern": pattern, "version": version, "deleted": deleted}


BAD = [
    update("broken", pair("nothing > 1")),
    update("broken", "pattern: ["),
    update("code", CODE),
    update("move", RISE, version=1),
    update("move", RISE, version=2),
    update(None, RISE),
]


def amounts(*found):
    return [{"user": user, "amount": amount} for amount in found for user in USERS]


def inputs():
    script = [update("move", RISE), *BAD[:2], STOP, *amounts(11, 12), STOP]
    # 12 waits for a rise; the new version begins afresh.
    script += [update("move", FALL, version=2), STOP, *amounts(11, 10), STOP]
    script += [update("spike", SPIKE), *BAD[2:], STOP, *amounts(100, 99), STOP]
    # 99 waits for a fall, which is no longer looked for.
    script += [update("move", deleted=True), update("unknown", deleted=True), STOP, *amounts(50, 200), STOP]
    script += [update("move", RISE), update("move", RISE, version=1), STOP, *amounts(20, 30)]
    return {"in": script}


def expected():
    moves = [(1, 11, 12), (2, 10, 11), (2, 99, 100), (1, 20, 30)]
    out = [
        {"rule": "move", "version": version, "user": user, "match": f'{{"low":{low},"high":{high}}}'}
        for version, low, high in moves
        for user in USERS
    ]
    out += [{"rule": "spike", "version": 1, "user": user, "match": '{"n":1}'} for user in USERS * 2]
    return {"out": out, "dead": [{"step": "found", "record": json.dumps(row)} for row in BAD]}


def job():
    job = ms.Job("patterns-updated")
    columns = "rule string, pattern string, version long, deleted boolean"
    both = job.source("in", ms.memory([]), schema=f"{columns}, user string, amount long")
    rules = both.filter("user is null", id="brought").select("rule", "pattern", "version", "deleted", id="rules")
    rows = both.filter("user is not null", id="used").select("user", "amount", id="rows")
    found = rows.key_by("user").patterns(rules.broadcast(), id="found")
    found.sink("out", ms.collect("out"))
    found.side_output("dead").select("step", "record", id="letters").sink("dead", ms.collect("dead"))
    return job
