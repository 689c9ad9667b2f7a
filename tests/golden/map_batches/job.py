"""Arrow in, Arrow out, row for row."""

import pyarrow as pa
import pyarrow.compute as pc

import millstream as ms

ORDER_KEY = {"out": ["user"]}


def tax(batch):
    return pa.RecordBatch.from_arrays(
        [batch.column("user"), pc.multiply(batch.column("amount"), 1.5)], names=["user", "gross"]
    )


def job():
    job = ms.Job("map-batches")
    rows = job.source("in", ms.memory([]), schema="user string, amount double")
    rows.map_batches(tax, schema="user string, gross double").sink("out", ms.collect("out"))
    return job
