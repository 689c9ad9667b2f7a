"""State expires by event time: a row or timer finds what is younger than the time to live, however far the watermark went."""

import millstream as ms

ORDER_KEY = {"out": ["user"], "moved": ["user"]}


class Remember(ms.ProcessFunction):
    recent = ms.ValueState(int, ttl="10s", ttl_clock="event")
    touched = ms.ListState(int, ttl="10s", ttl_clock="event", ttl_update="read")
    ever = ms.ValueState(int)

    def process(self, row, ctx):
        yield {"user": row["user"], "at": row["at"], **self.held()}
        if row["write"]:
            self.recent.update(row["n"])
            self.touched.add(row["n"])
            self.ever.update(row["n"])
            ctx.event_timer(row["at"] + 9_999)
            ctx.event_timer(row["at"] + 10_000)

    def on_timer(self, timestamp, ctx):
        yield {"user": ctx.key[0], "at": timestamp, **self.held()}

    def held(self):
        return {"recent": self.recent.value(), "touched": self.touched.get(), "ever": self.ever.value()}


class Count(ms.ProcessFunction):
    """Without timers, so that the watermark may move between any two rows."""

    seen = ms.ReducingState(int, int.__add__, ttl="10s", ttl_clock="event")

    def process(self, row, ctx):
        self.seen.add(1)
        yield {"user": row["user"], "at": row["at"], "seen": self.seen.get()}


def job():
    job = ms.Job("process-ttl-event-time")
    rows = job.source("in", ms.memory([]), schema="user string, n long, write boolean, at long")
    schema = "user string, at long, recent long, touched array<long>, ever long"
    timed = rows.event_time("at", max_delay="1h")
    timed.key_by("user").process(Remember, schema=schema, id="ttl").sink("out", ms.collect("out"))
    moving = job.source("moving", ms.memory([]), schema="user string, at long").event_time("at")
    counted = moving.key_by("user").process(Count, schema="user string, at long, seen long", id="count")
    counted.sink("moved", ms.collect("moved"))
    return job
