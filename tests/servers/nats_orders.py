"""A job between two streams of NATS, what goes in, and what must come out: for the tests of both engines."""

import json
from collections import Counter

JOB = """
import sys
import millstream as ms

folder, servers, orders, totals, master = sys.argv[1:6]
job = ms.Job("nats-totals", rows_per_epoch=300, parallelism=2)
rows = job.source(
    "orders",
    ms.nats(orders, servers=servers, start="earliest", until="latest", metadata={"place": "sequence"}),
    schema="user string, amount long, at long, place long",
)
rows.sink("all", ms.files(folder + "/all", format="parquet"))
windows = rows.event_time("at", max_delay="5s").key_by("user").window(ms.tumbling("10s"))
counted = windows.aggregate(n=ms.count(), total=ms.sum("amount"), id="totals")
counted.sink("totals", ms.nats(totals, servers=servers, publish_to=totals + ".rows", atomic=True))
if __name__ == "__main__":
    where = {"local": True} if master == "here" else {"master": master}
    job.run(checkpoint=folder + "/checkpoint", **where)
"""
ROWS = [{"user": f"u{n % 7}", "amount": n % 50, "at": n * 100} for n in range(1500)]


def expected():
    """What plain Python counts."""
    found = {}
    for row in ROWS:
        count, total = found.get((row["user"], row["at"] // 10_000), (0, 0))
        found[row["user"], row["at"] // 10_000] = (count + 1, total + row["amount"])
    return Counter((user, *sums) for (user, _), sums in found.items())


def counted(server, totals):
    """What the job has published."""
    rows = [json.loads(message.data) for message in server.read(totals, f"{totals}.rows")]
    return Counter((row["user"], row["n"], row["total"]) for row in rows)
