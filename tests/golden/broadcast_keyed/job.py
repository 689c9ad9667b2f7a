"""Rules reach every subtask; rows count per key how often a rule applied. Rules of an epoch come before its rows."""

import millstream as ms
from millstream.testing import ADVANCE_CLOCK

ORDER_KEY = {"out": ["user"]}
STOP = dict(ADVANCE_CLOCK("10s"))


class Rules(ms.BroadcastFunction):
    rules = ms.BroadcastState(str, int)
    hits = ms.ValueState(int)

    def process(self, row, ctx):
        found = [name for name, least in sorted(self.rules.items()) if row["amount"] >= least]
        self.hits.update((self.hits.value() or 0) + len(found))
        yield {"user": row["user"], "amount": row["amount"], "found": ",".join(found), "hits": self.hits.value()}

    def process_broadcast(self, row, ctx):
        if row["least"] is None:
            self.rules.remove(row["name"])
        else:
            self.rules.put(row["name"], row["least"])
        yield {"user": "-", "amount": row["least"], "found": row["name"], "hits": None}


def inputs():
    rows = [{"user": f"u{number % 4}", "amount": 20 * number} for number in range(6)]
    rules = [{"name": "big", "amount": 50}, {"name": "any", "amount": 0}]
    return {"in": [*rules, STOP, *rows, STOP, {"name": "any", "amount": None}, STOP, *rows]}


def expected():
    out = [("-", 50, "big", None), ("-", 0, "any", None), ("-", None, "any", None)]
    hits: dict[str, int] = {}
    for names in (["any", "big"], ["big"]):
        for number in range(6):
            user, amount = f"u{number % 4}", 20 * number
            found = [name for name in names if name == "any" or amount >= 50]
            hits[user] = hits.get(user, 0) + len(found)
            out.append((user, amount, ",".join(found), hits[user]))
    return {"out": [dict(zip(("user", "amount", "found", "hits"), row, strict=True)) for row in out]}


def job():
    job = ms.Job("broadcast-keyed")
    both = job.source("in", ms.memory([]), schema="name string, user string, amount long")
    rules = both.filter("name is not null", id="named").select("name", least="amount", id="rules")
    rows = both.filter("user is not null", id="used").select("user", "amount", id="rows")
    schema = "user string, amount long, found string, hits long"
    made = rows.key_by("user").connect(rules.broadcast()).process(Rules, schema=schema, id="rules-of-users")
    made.sink("out", ms.collect("out"))
    return job
