"""Two branches of one stream meet again before a key; each row is counted once for each branch it took."""

import millstream as ms


def job():
    job = ms.Job("union-of-branches")
    rows = job.source("in", ms.memory([]), schema="user string, amount long")
    small = rows.filter("amount < 10").with_columns(amount="amount * 100")
    odd = rows.filter(lambda row: row["amount"] % 2 == 1)
    united = small.union(odd)
    united.key_by("user").aggregate(n=ms.count(), total=ms.sum("amount"), emit="end", id="sum").sink(
        "out", ms.collect("out")
    )
    return job
