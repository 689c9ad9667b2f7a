"""Changes by key, made whole by the last row of each key, and aggregated; results are made whole and aggregated again."""

import random

import millstream as ms

LAST_BY = {"totals": ["customer"]}
IGNORED = {"totals": ["op"]}
"""Whether a result is new depends on where epochs are cut."""


def job():
    job = ms.Job("changelog-normalized")
    rows = job.source("in", ms.memory([]), schema="op string, id long, customer string, amount long")
    whole = rows.as_changelog(keys=["id"]).map(as_it_is, schema=rows.schema).normalize(id="whole").filter("amount > 10")
    totals = whole.key_by("customer").aggregate(n=ms.count(), total=ms.sum("amount"), id="by-customer")
    totals.sink("totals", ms.collect("totals"))
    # How many customers have so many rows.
    sizes = totals.normalize(id="whole-totals").key_by("n").aggregate(customers=ms.count(), emit="end", id="by-size")
    sizes.sink("sizes", ms.collect("sizes"))
    return job


def as_it_is(row):
    return row


def story():
    chosen, table = random.Random(7), {}
    for _ in range(300):
        id = chosen.randrange(20)
        if chosen.random() < 0.3:
            table.pop(id, None)
            yield {"op": "delete", "id": id, "customer": None, "amount": None}, table
        else:
            row = {"id": id, "customer": chosen.choice("abc"), "amount": chosen.randrange(40)}
            yield {"op": "update" if id in table else "insert", **row}, table
            table[id] = row


def inputs():
    return {"in": [change for change, _ in story()]}


def expected():
    *_, (_, table) = story()
    of = {each: [r["amount"] for r in table.values() if r["customer"] == each and r["amount"] > 10] for each in "abc"}
    totals = [{"customer": each, "n": len(of[each]), "total": sum(of[each])} for each in "abc"]
    return {"totals": totals, "sizes": sizes({each: len(of[each]) for each in "abc"})}


def sizes(counts):
    return [{"n": n, "customers": sum(each == n for each in counts.values())} for n in sorted(set(counts.values()))]
