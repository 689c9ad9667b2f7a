"""A generator of the user's: a partition has a watermark once it has given three rows."""

import millstream as ms

PARTITION_BY = {"in": "shard"}
ORDER_KEY = {"out": ["user"]}


class AfterThree(ms.WatermarkGenerator):
    def on_epoch(self, state, newest, rows, now):
        seen = {"rows": rows, "newest": newest} if state is None else dict(state)
        if state is not None:
            seen["rows"] += rows
            seen["newest"] = max(seen["newest"], seen["newest"] if newest is None else newest)
        return seen, seen["newest"] - 1 if seen["rows"] >= 3 else None


def job():
    job = ms.Job("watermark-generator")
    source = job.source("in", ms.memory([]), schema="shard string, user string, at long")
    rows = source.event_time("at", watermark=AfterThree)
    windows = rows.key_by("user").window(ms.tumbling("1m")).aggregate(n=ms.count(), id="w")
    windows.sink("out", ms.collect("out"))
    windows.late.sink("late", ms.collect("late"))
    return job
