"""Bids of twenty minutes: what Flink's documentation shows for window tables, their best rows and their last ones."""

import datetime as dt

import millstream as ms

EIGHT = dt.datetime(2020, 4, 15, 8, tzinfo=dt.UTC)
BIDS = [(5, 4.0, "C"), (7, 2.0, "A"), (9, 5.0, "D"), (11, 3.0, "B"), (13, 1.0, "E"), (17, 6.0, "F")]
MORE = [
    (5, 4.0, "A"), (6, 4.0, "C"), (7, 2.0, "G"), (8, 2.0, "B"), (9, 5.0, "D"),
    (11, 2.0, "B"), (13, 1.0, "E"), (15, 3.0, "H"), (17, 6.0, "F"),
]  # fmt: skip
TUMBLE = "TUMBLE(TABLE stream, DESCRIPTOR(bidtime), INTERVAL '10' MINUTES)"
HOP = "HOP(TABLE stream, DESCRIPTOR(bidtime), INTERVAL '5' MINUTES, INTERVAL '10' MINUTES)"
CUMULATE = "CUMULATE(TABLE stream, DESCRIPTOR(bidtime), INTERVAL '2' MINUTES, INTERVAL '10' MINUTES)"


def at(minute):
    return EIGHT + dt.timedelta(minutes=minute)


def rows(bids):
    return [{"bidtime": at(minute), "price": price, "item": item} for minute, price, item in bids]


def inputs():
    return {"bids": rows(BIDS), "more": rows(MORE)}


def sums(*found):
    return [{"window_start": at(start), "window_end": at(end), "total": total} for start, end, total in found]


def picked(*found):
    names = ("item", "price", "window_start", "window_end", "rownum")
    return [dict(zip(names, (item, price, at(s), at(s + 10), n), strict=True)) for item, price, s, n in found]


def expected():
    tumbled = sums((0, 10, 11.0), (10, 20, 10.0))
    return {
        "tumbled": tumbled,
        "grouped": tumbled,
        "hopped": sums((0, 10, 11.0), (5, 15, 15.0), (10, 20, 10.0), (15, 25, 6.0)),
        "cumulated": sums(
            (0, 6, 4.0), (0, 8, 6.0), (0, 10, 11.0),
            (10, 12, 3.0), (10, 14, 4.0), (10, 16, 4.0), (10, 18, 10.0), (10, 20, 10.0),
        ),
        "best": picked(
            ("D", 5.0, 0, 1), ("A", 4.0, 0, 2), ("C", 4.0, 0, 3), ("F", 6.0, 10, 1), ("H", 3.0, 10, 2), ("B", 2.0, 10, 3)
        ),
        "last": picked(("D", 5.0, 0, 1), ("F", 6.0, 10, 1)),
        "first": picked(("C", 4.0, 0, 1), ("B", 3.0, 10, 1)),
    }  # fmt: skip


def job():
    job = ms.Job("sql-window-tables")
    schema = "bidtime timestamp, price double, item string"
    bids = job.source("bids", ms.memory([]), schema=schema).event_time("bidtime", max_delay="3m")
    more = job.source("more", ms.memory([]), schema=schema).event_time("bidtime", max_delay="3m")
    for name, table in (("tumbled", TUMBLE), ("hopped", HOP), ("cumulated", CUMULATE)):
        text = f"SELECT window_start, window_end, SUM(price) AS total FROM TABLE({table}) GROUP BY window_start, window_end"
        bids.sql(text, id=f"{name}-rows").sink(name, ms.collect(name))
    bids.sql(
        """
        SELECT TUMBLE_START(bidtime, INTERVAL '10' MINUTES) AS window_start,
               TUMBLE_END(bidtime, INTERVAL '10' MINUTES) AS window_end, SUM(price) AS total
        FROM stream GROUP BY TUMBLE(bidtime, INTERVAL '10' MINUTES)
        """,
        id="grouped-rows",
    ).sink("grouped", ms.collect("grouped"))
    for name, stream, order, most in (
        ("best", more, "price DESC", 3), ("last", bids, "bidtime DESC", 1), ("first", bids, "bidtime", 1),
    ):  # fmt: skip
        ranked = f"ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY {order}) AS rownum"
        text = f"""
            SELECT item, price, window_start, window_end, rownum
            FROM (SELECT *, {ranked} FROM TABLE({TUMBLE})) WHERE rownum <= {most}
            """
        stream.sql(text, id=f"{name}-rows").sink(name, ms.collect(name))
    return job
