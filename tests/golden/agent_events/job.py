"""An agent: two actions behind each other, memory of the key and of the run, and an output for every event."""

import millstream as ms
from millstream.agents import Agent, Event, InputEvent, OutputEvent, action

ORDER_KEY = {"out": ["user"]}


class Tally(Agent):
    @action(InputEvent)
    @staticmethod
    def count(event, ctx):
        row = event.input
        ctx.short_term_memory.increment("sums.amount", row["amount"])
        ctx.short_term_memory.append("amounts", row["amount"])
        ctx.sensory_memory.set("amount", row["amount"])
        for part in ("a", "b"):
            ctx.send_event(Event("counted", {"part": part, "sum": ctx.short_term_memory.get("sums.amount")}))

    @action("counted")
    def tell(event, ctx):
        seen = ctx.short_term_memory.get("amounts")
        ctx.send_event(
            OutputEvent(
                {
                    "user": ctx.key,
                    "part": event.get_attr("part"),
                    "amount": ctx.sensory_memory.get("amount"),
                    "sum": event.get_attr("sum"),
                    "seen": len(seen),
                }
            )
        )


def job():
    job = ms.Job("agent-events")
    rows = job.source("in", ms.memory([]), schema="user string, amount long")
    schema = "user string, part string, amount long, sum long, seen long"
    rows.key_by("user").agent(Tally, schema=schema, id="tally").sink("out", ms.collect("out"))
    return job


ROWS = [{"user": f"u{number % 7}", "amount": number} for number in range(60)]


def inputs():
    return {"in": ROWS}


def expected():
    sums, seen, rows = {}, {}, []
    for row in ROWS:
        user, amount = row["user"], row["amount"]
        sums[user], seen[user] = sums.get(user, 0) + amount, seen.get(user, 0) + 1
        rows += [{"user": user, "part": part, "amount": amount, "sum": sums[user], "seen": seen[user]} for part in "ab"]
    return {"out": rows}
