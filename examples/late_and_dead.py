"""Late rows and bad rows: nothing vanishes; each goes where the job says, with the reason.

A row that comes after its window is gone leaves by `.late`. A row that a step cannot handle becomes a dead letter.

Output:

    -- dead, epoch 0: 1 rows
    record                                    error
    {"user": "bob", "amount": "ten", "at"...  ValueError: invalid literal for int()...
    -- late, epoch 2: 1 rows
    user  amount    at
    ann        7  3000
    -- in-time, epoch 2: 1 rows
    user  total  window_end
    ann      10  1970-01-01 00:01:00+00:00
    -- in-time, epoch 3: 2 rows
    user  total  window_end
    ann      30  1970-01-01 00:02:00+00:00
    bob       5  1970-01-01 00:02:00+00:00
"""

from typing import Any

import millstream as ms

ROWS = [
    {"user": "ann", "amount": "10", "at": 1_000},
    {"user": "bob", "amount": "ten", "at": 2_000},
    {"user": "ann", "amount": "30", "at": 65_000},
    {"user": "bob", "amount": "5", "at": 66_000},
    {"user": "ann", "amount": "7", "at": 3_000},
]


def parse(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "amount": int(row["amount"])}


# Two rows an epoch, so that the watermark moves while rows are still coming.
job = ms.Job("late-and-dead", guarantee="at_least_once", rows_per_epoch=2)
parsed = job.source("rows", ms.memory(ROWS), schema="user string, amount string, at long").map(
    parse, schema="user string, amount long, at long", on_error=ms.dead_letter(ms.collect("letters")), id="parse"
)
windows = parsed.event_time("at").key_by("user").window(ms.tumbling("1m"))
totals = windows.aggregate(total=ms.sum("amount"), id="totals")
totals.select("user", "total", "window_end").sink("in-time", ms.print())
totals.late.sink("late", ms.print())
parsed.dead.select("record", "error").sink("dead", ms.print())  # dead letters are a stream, too

if __name__ == "__main__":
    job.run(local=True)
