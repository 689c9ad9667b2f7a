"""An agent whose actions wait: keys overtake each other, inputs of a key do not; an input that fails leaves nothing behind."""

import asyncio

import millstream as ms
from millstream.agents import Agent, InputEvent, OutputEvent, action

ORDER_KEY = {"out": ["user"]}
ROWS = [{"user": f"u{number % 5}", "amount": number} for number in range(40)]


class Slow(Agent):
    @action(InputEvent)
    async def wait(event, ctx):
        amount = event.input["amount"]
        seen = ctx.short_term_memory.append("amounts", amount).resolve(ctx)
        await asyncio.sleep(0.02 if amount % 3 == 0 else 0)
        if amount % 11 == 10:
            raise ValueError(amount)
        assert ctx.short_term_memory.get("amounts") == seen
        ctx.send_event(OutputEvent({"user": ctx.key, "amount": amount, "seen": len(seen)}))


def inputs():
    return {"in": ROWS}


def expected():
    seen, rows = {}, []
    for row in ROWS:
        if row["amount"] % 11 != 10:
            seen[row["user"]] = seen.get(row["user"], 0) + 1
            rows.append({**row, "seen": seen[row["user"]]})
    return {"out": rows}


def job():
    job = ms.Job("agent-waiting")
    rows = job.source("in", ms.memory([]), schema="user string, amount long")
    outputs = rows.key_by("user").agent(
        Slow(), schema="user string, amount long, seen long", on_error="skip", id="slow"
    )
    outputs.sink("out", ms.collect("out"))
    return job
