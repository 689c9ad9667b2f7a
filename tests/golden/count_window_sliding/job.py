"""After every two rows of a key its last four, at first fewer; and every four rows the last one."""

import millstream as ms

ORDER_KEY = {"out": ["user"], "sparse": ["user"]}


def job():
    job = ms.Job("count-window-sliding")
    keyed = job.source("in", ms.memory([]), schema="user string, amount long").key_by("user")
    keyed.window(ms.count_window(4, 2)).aggregate(
        n=ms.count(), total=ms.sum("amount * 2"), kinds=ms.count_distinct("amount"), pane=True, id="w"
    ).sink("out", ms.collect("out"))
    keyed.window(ms.count_window(1, 4)).reduce(lambda a, b: b, id="s").sink("sparse", ms.collect("sparse"))
    return job


def inputs():
    return {"in": [{"user": "ab"[i % 3 % 2], "amount": i % 5} for i in range(25)]}


def expected():
    """Plain Python over the list of a user's rows."""
    out, sparse = [], []
    for user in "ab":
        amounts = [row["amount"] for row in inputs()["in"] if row["user"] == user]
        for end in range(2, len(amounts) + 1, 2):
            last = amounts[max(0, end - 4) : end]
            pane = {"pane_index": end // 2 - 1, "pane_timing": "EARLY"}
            out.append({"user": user, **pane, "n": len(last), "total": 2 * sum(last), "kinds": len(set(last))})
        sparse += [{"user": user, "amount": amounts[end - 1]} for end in range(4, len(amounts) + 1, 4)]
    return {"out": out, "sparse": sparse}
