"""Reading prolongs the life of state where it says so; a map and an accumulator are read as a whole."""

import millstream as ms

ORDER_KEY = {"out": ["user"]}


class Remember(ms.ProcessFunction):
    written = ms.ValueState(int, ttl="15s")
    used = ms.ValueState(int, ttl="15s", ttl_update="read")
    counts = ms.MapState(str, int, ttl="15s", ttl_update="read", ttl_clock="processing")
    total = ms.ReducingState(int, int.__add__, ttl="15s", ttl_update="read")
    top = ms.AggregatingState(list[int], create=list, add=lambda held, n: sorted([*held, n])[-2:], ttl="15s")

    def process(self, row, ctx):
        if row["write"]:
            self.written.update(row["n"])
            self.used.update(row["n"])
            self.counts.put("n", row["n"])
            self.total.add(row["n"])
            self.top.add(row["n"])
        yield {
            "user": row["user"],
            "written": self.written.value(),
            "used": self.used.value(),
            "count": self.counts.get("n"),
            "total": self.total.get(),
            "top": self.top.get(),
        }


def job():
    job = ms.Job("process-ttl-on-read")
    rows = job.source("in", ms.memory([]), schema="user string, n long, write boolean")
    schema = "user string, written long, used long, count long, total long, top array<long>"
    rows.key_by("user").process(Remember, schema=schema, id="ttl").sink("out", ms.collect("out"))
    return job
