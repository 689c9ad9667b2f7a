"""A map per key: counts by kind, with removal at two."""

import millstream as ms

ORDER_KEY = {"out": ["user"]}


class Kinds(ms.ProcessFunction):
    counts = ms.MapState(str, int)

    def process(self, row, ctx):
        count = self.counts.get(row["kind"], 0) + 1
        self.counts.put(row["kind"], count)
        if count == 2:
            self.counts.remove(row["kind"])
        yield {"user": row["user"], "has": row["kind"] in self.counts, "counts": dict(self.counts.items())}


def job():
    job = ms.Job("process-map-state")
    rows = job.source("in", ms.memory([]), schema="user string, kind string")
    schema = "user string, has boolean, counts map<string,int>"
    rows.key_by("user").process(Kinds, schema=schema, id="kinds").sink("out", ms.collect("out"))
    return job
