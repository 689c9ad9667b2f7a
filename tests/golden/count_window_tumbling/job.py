"""Every three rows of a key, as they come; what is left over gives nothing. Works without event time."""

import millstream as ms

ORDER_KEY = {"totals": ["user"], "longest": ["user"], "listed": ["user"]}
NAMES = ("ann", "bob", "cy")


def listed(key, window, rows):
    yield {"user": key["user"], "amounts": [row["amount"] for row in rows], "end": window.max_timestamp}


def job():
    job = ms.Job("count-window-tumbling")
    rows = job.source("in", ms.memory([]), schema="user string, amount long")
    window = rows.key_by("user").window(ms.count_window(3))
    window.aggregate(n=ms.count(), total=ms.sum("amount"), last=ms.last("amount"), id="t").sink(
        "totals", ms.collect("t")
    )
    window.reduce(lambda a, b: a if a["amount"] >= b["amount"] else b, id="r").sink("longest", ms.collect("r"))
    window.process(listed, schema="user string, amounts array<long>, end long", id="p").sink("listed", ms.collect("p"))
    return job


def inputs():
    return {"in": [{"user": NAMES[i % 7 % 3], "amount": i * i % 11} for i in range(23)]}


def expected():
    """Plain Python: the rows of each user in chunks of three, whole ones only."""
    totals, longest, lists = [], [], []
    for user in NAMES:
        amounts = [row["amount"] for row in inputs()["in"] if row["user"] == user]
        for chunk in [amounts[i : i + 3] for i in range(0, len(amounts) // 3 * 3, 3)]:
            totals.append({"user": user, "n": 3, "total": sum(chunk), "last": chunk[-1]})
            longest.append({"user": user, "amount": max(chunk)})
            lists.append({"user": user, "amounts": chunk, "end": 2**62})
    return {"totals": totals, "longest": longest, "listed": lists}
