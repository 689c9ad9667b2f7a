"""State expires on the clock, counted from its last write; a state without time to live stays."""

import millstream as ms

ORDER_KEY = {"out": ["user"]}


class Remember(ms.ProcessFunction):
    recent = ms.ValueState(int, ttl="15s")
    notes = ms.ListState(int, ttl="25s")
    ever = ms.ValueState(int)

    def process(self, row, ctx):
        yield {"user": row["user"], "recent": self.recent.value(), "notes": self.notes.get(), "ever": self.ever.value()}
        if row["write"]:
            self.recent.update(row["n"])
            self.notes.add(row["n"])
            self.ever.update(row["n"])


def job():
    job = ms.Job("process-ttl")
    rows = job.source("in", ms.memory([]), schema="user string, n long, write boolean")
    schema = "user string, recent long, notes array<long>, ever long"
    rows.key_by("user").process(Remember, schema=schema, id="ttl").sink("out", ms.collect("out"))
    return job
