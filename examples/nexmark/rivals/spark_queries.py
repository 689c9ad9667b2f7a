"""The queries as an expert writes them by hand for Structured Streaming, with its own operators.

What Spark's operators refuse, or have no operator for, is in `REFUSED` with the reason.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pyarrow as pa
from examples.nexmark.queries.catalog import Settled, bids_per_bidder, last_of
from examples.nexmark.rivals.spark_process import counted
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

Read = Callable[[str], DataFrame]
"""The stream of a kind."""

_BID = ("auction", "bidder", "price", "dateTime", "extra")
_WHOLE_BID = ("auction", "bidder", "price", "channel", "url", "dateTime", "extra")
_DETAILS = ("itemName", "description", "initialBid", "reserve", "expires", "seller", "category")
_AUCTION = ("id", *_DETAILS, "dateTime", "extra")
_DELAY = "4 seconds"
_TEN = "10 seconds"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SparkQuery:
    """A query and how it runs."""

    build: Callable[[Read], DataFrame]
    mode: str = "append"
    settled: Settled | None = None
    """From all rows that were written to the table that they come to."""
    is_timed: bool = False
    """Whether windows must be closed by a last row."""
    csv_by: tuple[str, ...] = ()
    """Columns that name the folders, for a query that writes text files."""


def _euros() -> Column:
    return (f.lit("0.908").cast("decimal(4,3)") * f.col("price")).cast("decimal(23,3)")


def _q0(read: Read) -> DataFrame:
    return read("bid").select(*_BID)


def _q1(read: Read) -> DataFrame:
    return read("bid").select(*_BID).withColumn("price", _euros())


def _q2(read: Read) -> DataFrame:
    return read("bid").filter("auction % 123 = 0").select("auction", "price")


def _q3(read: Read) -> DataFrame:
    auctions = read("auction").filter("category = 10").select("id", "seller")
    persons = (
        read("person")
        .filter("state IN ('OR', 'ID', 'CA')")
        .select("name", "city", "state", f.col("id").alias("person"))
    )
    return auctions.join(persons, f.expr("seller = person")).select("name", "city", "state", "id")


def _named(frame: DataFrame, **names: str) -> DataFrame:
    """The columns with new names for some."""
    return frame.withColumnsRenamed({name: given for given, name in names.items()})


def _q5(read: Read) -> DataFrame:
    bids = read("bid").withWatermark("dateTime", _DELAY)
    counts = bids.groupBy(f.window("dateTime", _TEN, "2 seconds").alias("w"), "auction").agg(f.count("*").alias("num"))
    both = counts.groupBy("w").agg(
        f.max("num").alias("most"), f.collect_list(f.struct("auction", "num")).alias("counts")
    )
    hot = both.select(f.explode(f.expr("filter(counts, c -> c.num = most)")).alias("c"))
    return hot.select("c.auction", "c.num")


def _q7(read: Read) -> DataFrame:
    bids = read("bid").select(*_BID).withWatermark("dateTime", _DELAY)
    highest = (
        read("bid").withWatermark("dateTime", _DELAY).groupBy(f.window("dateTime", _TEN).alias("w"))
        .agg(f.max("price").alias("highest")).select("highest", f.window_time("w").alias("last"))
    )  # fmt: skip
    # `last` is a microsecond before the end of the window; both ends count.
    in_time = "dateTime BETWEEN last - INTERVAL 9.999999 SECONDS AND last + INTERVAL 0.000001 SECONDS"
    return bids.join(highest, f.expr(f"price = highest AND {in_time}")).select(*_BID)


def _q8(read: Read) -> DataFrame:
    window = f.window("dateTime", _TEN).alias("w")
    persons = read("person").withWatermark("dateTime", _DELAY).groupBy(window, "id", "name").count()
    sellers = read("auction").withWatermark("dateTime", _DELAY).groupBy(window, "seller").count()
    left, right = persons.select("id", "name", "w"), sellers.select("seller", f.col("w").alias("v"))
    return left.join(right, f.expr("id = seller AND w = v")).select("id", "name", f.col("w.start").alias("starttime"))


def _q9(read: Read) -> DataFrame:
    bids = read("bid").select("auction", "bidder", "price", "dateTime", "extra", "event_id")
    named = _named(bids, bid_dateTime="dateTime", bid_extra="extra", bid_id="event_id")
    in_time = f.expr("auction = id AND bid_dateTime BETWEEN dateTime AND expires")
    offers = read("auction").select(*_AUCTION).join(named, in_time)
    columns = (*_AUCTION, "auction", "bidder", "price", "bid_dateTime", "bid_extra")
    first = f.expr("struct(price, -unix_micros(bid_dateTime), -bid_id)")
    best = offers.groupBy("id").agg(f.max_by(f.struct(*columns), first).alias("best"))
    return best.select("best.*")


def _q10(read: Read) -> DataFrame:
    return read("bid").select(
        *_BID,
        f.date_format("dateTime", "yyyy-MM-dd").alias("dt"),
        f.date_format("dateTime", "HH:mm").alias("hm"),
    )


def _q11(read: Read) -> DataFrame:
    bids = read("bid").withWatermark("dateTime", _DELAY)
    sessions = bids.groupBy(f.session_window("dateTime", _TEN).alias("w"), "bidder").agg(
        f.count("*").alias("bid_count")
    )
    return sessions.select("bidder", "bid_count", f.col("w.start").alias("starttime"), f.col("w.end").alias("endtime"))


def _q12(read: Read) -> DataFrame:
    bids = read("bid").withColumn("at", f.current_timestamp())
    counts = bids.groupBy(f.window("at", _TEN).alias("w"), "bidder").agg(f.count("*").alias("bid_count"))
    return counts.select("bidder", "bid_count", f.col("w.start").alias("starttime"), f.col("w.end").alias("endtime"))


def _last_windows(changes: pa.Table) -> pa.Table:
    """What the last count of each window adds up to."""
    return bids_per_bidder(last_of("bidder", "starttime")(changes))


def _q13(read: Read) -> DataFrame:
    spark = SparkSession.getActiveSession()
    assert spark is not None, "a query is built in a session"
    side = spark.range(10_000).select(f.col("id").alias("key"), f.col("id").cast("string").alias("value"))
    bids = read("bid").select("auction", "bidder", "price", "dateTime")
    return bids.join(f.broadcast(side), f.expr("auction % 10000 = key")).drop("key")


def _q14(read: Read) -> DataFrame:
    priced = read("bid").select(*_BID).withColumn("price", _euros()).filter("price > 1000000 AND price < 50000000")
    return priced.withColumns(
        {
            "bidTimeType": f.expr(
                """CASE WHEN hour(dateTime) BETWEEN 8 AND 18 THEN 'dayTime'
                WHEN hour(dateTime) <= 6 OR hour(dateTime) >= 20 THEN 'nightTime' ELSE 'otherTime' END"""
            ),
            "c_counts": f.expr("length(extra) - length(replace(extra, 'c', ''))"),
        }
    )


def _q17(read: Read) -> DataFrame:
    bids = read("bid").select("auction", "price", f.date_format("dateTime", "yyyy-MM-dd").alias("day"))
    bands = {"rank1": "price < 10000", "rank2": "price >= 10000 AND price < 1000000", "rank3": "price >= 1000000"}
    counts = [f.expr(f"count_if({where})").alias(f"{band}_bids") for band, where in bands.items()]
    totals = bids.groupBy("auction", "day").agg(
        f.count("*").alias("total_bids"),
        *counts,
        f.min("price").alias("min_price"),
        f.max("price").alias("max_price"),
        f.sum("price").alias("sum_price"),
    )
    return totals.withColumn("avg_price", f.expr("sum_price div total_bids"))


def _q18(read: Read) -> DataFrame:
    last = f.max_by(f.struct(*_WHOLE_BID), f.struct("dateTime", "event_id")).alias("last")
    return read("bid").groupBy("bidder", "auction").agg(last).select("last.*")


def _q20(read: Read) -> DataFrame:
    bids = _named(read("bid").select(*_WHOLE_BID), bid_dateTime="dateTime", bid_extra="extra")
    auctions = read("auction").select(*_AUCTION).filter("category = 10")
    named = _named(auctions, auction_dateTime="dateTime", auction_extra="extra")
    return bids.join(named, f.expr("auction = id")).drop("id")


def _q21(read: Read) -> DataFrame:
    bids = read("bid").select("auction", "bidder", "price", "channel", "url")
    found = bids.withColumn(
        "channel_id",
        f.expr(
            """CASE lower(channel) WHEN 'apple' THEN '0' WHEN 'google' THEN '1' WHEN 'facebook' THEN '2'
            WHEN 'baidu' THEN '3' ELSE nullif(regexp_extract(url, '(&|^)channel_id=([^&]*)', 2), '') END"""
        ),
    )
    return found.filter("channel_id IS NOT NULL").drop("url")


def _q22(read: Read) -> DataFrame:
    folders = [f.split_part("url", f.lit("/"), f.lit(number + 3)).alias(f"dir{number}") for number in (1, 2, 3)]
    return read("bid").select("auction", "bidder", "price", "channel", *folders)


QUERIES: dict[str, SparkQuery] = {
    "q0": SparkQuery(build=_q0),
    "q1": SparkQuery(build=_q1),
    "q2": SparkQuery(build=_q2),
    "q3": SparkQuery(build=_q3),
    "q5": SparkQuery(build=_q5, is_timed=True),
    "q7": SparkQuery(build=_q7, is_timed=True),
    "q8": SparkQuery(build=_q8, is_timed=True),
    "q9": SparkQuery(build=_q9, mode="update", settled=last_of("id")),
    "q10": SparkQuery(build=_q10, csv_by=("dt", "hm")),
    "q11": SparkQuery(build=_q11, is_timed=True),
    "q12": SparkQuery(build=_q12, mode="update", settled=_last_windows),
    "q13": SparkQuery(build=_q13),
    "q14": SparkQuery(build=_q14),
    "q17": SparkQuery(build=_q17, mode="update", settled=last_of("auction", "day")),
    "q18": SparkQuery(build=_q18, mode="update", settled=last_of("bidder", "auction")),
    "q20": SparkQuery(build=_q20),
    "q21": SparkQuery(build=_q21),
    "q22": SparkQuery(build=_q22),
    "process": SparkQuery(build=lambda read: counted(read("bid")), mode="update"),
}
_NO_DISTINCT = "Spark refuses distinct aggregates over a stream"
_NO_PATTERN = "Spark has no pattern matching"
REFUSED = {
    "q4": "Spark refuses an aggregation behind an aggregation in update mode",
    "q6": "Spark has no operator for the last rows of a key over a changing input",
    "q15": _NO_DISTINCT,
    "q16": _NO_DISTINCT,
    "q19": "Spark refuses row_number over a stream",
    **dict.fromkeys(("c0", "c1", "c2", "c3"), _NO_PATTERN),
}
