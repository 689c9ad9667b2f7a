"""Expressions, batches and Python steps fused into one chain; every row passes all of them."""

import millstream as ms

ORDER_KEY = {"out": ["user"]}


def job():
    job = ms.Job("stateless-chain")
    rows = job.source("in", ms.memory([]), schema="user string, amount long")
    (
        rows.filter("amount > 0")
        .with_columns(amount="amount + 1")
        .map(lambda row: {**row, "amount": row["amount"] * 2}, schema="user string, amount long")
        .filter(lambda row: row["amount"] != 8)
        .flat_map(lambda row: [row] * (row["amount"] // 6), schema="user string, amount long")
        .map_batches(lambda batch: batch)
        .select("user", half="amount / 2")
        .sink("out", ms.collect("out"))
    )
    return job
