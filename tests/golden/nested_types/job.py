"""Arrays, maps and structs pass through steps, exchanges and state unchanged."""

import millstream as ms

ORDER_KEY = {"out": ["k"], "reduced": ["k"]}
SCHEMA = "k string, tags array<string>, sizes map<string,long>, place struct<name:string,at:array<double>>"


class Joined(ms.ProcessFunction):
    places = ms.ListState(dict)

    def process(self, row, ctx):
        self.places.add(row["place"])
        yield {"k": row["k"], "places": self.places.get()}


def job():
    job = ms.Job("nested-types")
    rows = job.source("in", ms.memory([]), schema=SCHEMA)
    rows.map(lambda row: {**row, "tags": (row["tags"] or []) + ["seen"]}, schema=SCHEMA).sink("out", ms.collect("out"))
    rows.key_by("k").reduce(lambda held, row: {**row, "sizes": held["sizes"] | row["sizes"]}, id="r").sink(
        "reduced", ms.collect("r")
    )
    places = rows.key_by("k").process(
        Joined, schema="k string, places array<struct<name:string,at:array<double>>>", id="p"
    )
    places.sink("places", ms.collect("p"))
    return job
