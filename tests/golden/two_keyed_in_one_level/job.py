"""Two keyed steps of one level by different keys share a shuffle and then meet in a union."""

import millstream as ms

ORDER_KEY = {"out": ["label"]}


def job():
    job = ms.Job("two-keyed-in-one-level")
    rows = job.source("in", ms.memory([]), schema="user string, shop string, amount long")
    users = rows.key_by("user").aggregate(total=ms.sum("amount"), emit="row", id="users")
    shops = rows.key_by("shop").aggregate(total=ms.sum("amount"), emit="row", id="shops")
    named = users.select("total", label="concat('user ', user)").union(
        shops.select("total", label="concat('shop ', shop)")
    )
    named.sink("out", ms.collect("out"))
    return job
