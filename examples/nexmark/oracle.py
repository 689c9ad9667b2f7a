"""What each Nexmark query must give, computed over all rows at once by code that shares nothing with Millstream.

Queries in SQL run in DuckDB; q6 and the pattern queries c0 to c3 are plain Python, in `oracle_python.py`. Columns have
the names of the benchmark's own tables; q5 and the pattern queries also carry their window or partition.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType

import duckdb
import pyarrow as pa
from examples.nexmark.oracle_python import PYTHON

_BANDS = ("true", "price < 10000", "price >= 10000 AND price < 1000000", "price >= 1000000")
_BAND_NAMES = ("total", "rank1", "rank2", "rank3")
_DAY = "strftime(dateTime, '%Y-%m-%d') AS day"


def _per_band(measure: str, name: str) -> str:
    """A measure for all bids and for each band of prices."""
    pairs = zip(_BAND_NAMES, _BANDS, strict=True)
    return ", ".join(f"{measure} FILTER (WHERE {band}) AS {prefix}_{name}" for prefix, band in pairs)


_COUNTS = _per_band("count(*)", "bids")
_STATISTICS = ", ".join(
    [_COUNTS, _per_band("count(DISTINCT bidder)", "bidders"), _per_band("count(DISTINCT auction)", "auctions")]
)
_BID = "auction, bidder, price, channel, url, dateTime, extra"
_AUCTION = "id, itemName, description, initialBid, reserve, dateTime, expires, seller, category, extra"
_IN_TIME = "b.auction = a.id AND b.dateTime BETWEEN a.dateTime AND a.expires"
_TEN_SECONDS = "time_bucket(INTERVAL 10 seconds, dateTime, TIMESTAMP '1970-01-01')"

SQL: dict[str, str] = {
    "q0": "SELECT auction, bidder, price, dateTime, extra FROM bid",
    "q1": "SELECT auction, bidder, CAST(0.908 * price AS DECIMAL(23, 3)) AS price, dateTime, extra FROM bid",
    "q2": "SELECT auction, price FROM bid WHERE auction % 123 = 0",
    "q3": """
        SELECT p.name, p.city, p.state, a.id FROM auction a JOIN person p ON a.seller = p.id
        WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA')""",
    "q4": f"""
        WITH won AS (
            SELECT a.id, a.category, max(b.price) AS final FROM auction a JOIN bid b ON {_IN_TIME} GROUP BY ALL)
        SELECT category, CAST(sum(final) // count(*) AS BIGINT) AS final FROM won GROUP BY category""",
    "q5": """
        WITH shares AS (
            SELECT auction, start, start + INTERVAL 10 seconds AS window_end, count(*) AS num FROM (
                SELECT auction, unnest(generate_series(0, 8, 2)) AS back,
                    time_bucket(INTERVAL 2 seconds, dateTime, TIMESTAMP '1970-01-01') - to_seconds(back) AS start
                FROM bid) GROUP BY ALL)
        SELECT auction, num, start AS window_start, window_end FROM shares
        QUALIFY num = max(num) OVER (PARTITION BY start)""",
    "q7": f"""
        WITH highest AS (
            SELECT {_TEN_SECONDS} + INTERVAL 10 seconds AS window_end, max(price) AS price FROM bid GROUP BY 1)
        SELECT b.auction, b.bidder, b.price, b.dateTime, b.extra FROM bid b JOIN highest h
        ON b.price = h.price AND b.dateTime BETWEEN h.window_end - INTERVAL 10 seconds AND h.window_end""",
    "q8": f"""
        SELECT p.id, p.name, p.window_start AS starttime
        FROM (SELECT DISTINCT id, name, {_TEN_SECONDS} AS window_start FROM person) p
        JOIN (SELECT DISTINCT seller, {_TEN_SECONDS} AS window_start FROM auction) a
        ON p.id = a.seller AND p.window_start = a.window_start""",
    "q9": f"""
        SELECT {", ".join(f"a.{name}" for name in _AUCTION.split(", "))}, b.auction, b.bidder, b.price,
            b.dateTime AS bid_dateTime, b.extra AS bid_extra
        FROM auction a JOIN bid b ON {_IN_TIME}
        QUALIFY row_number() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.dateTime, b.event_id) = 1""",
    "q10": """
        SELECT auction, bidder, price, dateTime, extra, strftime(dateTime, '%Y-%m-%d') AS dt,
            strftime(dateTime, '%H:%M') AS hm FROM bid""",
    "q11": """
        WITH gaps AS (
            SELECT bidder, dateTime, dateTime - lag(dateTime) OVER mine > INTERVAL 10 seconds AS is_new FROM bid
            WINDOW mine AS (PARTITION BY bidder ORDER BY dateTime, event_id)),
        sessions AS (
            SELECT bidder, dateTime, count(*) FILTER (WHERE is_new) OVER (
                PARTITION BY bidder ORDER BY dateTime RANGE UNBOUNDED PRECEDING) AS session FROM gaps)
        SELECT bidder, count(*) AS bid_count, min(dateTime) AS starttime,
            max(dateTime) + INTERVAL 10 seconds AS endtime FROM sessions GROUP BY bidder, session""",
    # Windows of the processing time depend on the run; what they add up to does not.
    "q12": "SELECT bidder, count(*) AS bid_count FROM bid GROUP BY bidder",
    "q13": """
        SELECT auction, bidder, price, dateTime, s.value FROM bid
        JOIN (SELECT i AS key, CAST(i AS VARCHAR) AS value FROM range(10000) t(i)) s ON auction % 10000 = s.key""",
    "q14": """
        SELECT auction, bidder, CAST(0.908 * price AS DECIMAL(23, 3)) AS price,
            CASE WHEN hour(dateTime) BETWEEN 8 AND 18 THEN 'dayTime'
                WHEN hour(dateTime) <= 6 OR hour(dateTime) >= 20 THEN 'nightTime' ELSE 'otherTime' END AS bidTimeType,
            dateTime, extra, length(extra) - length(replace(extra, 'c', '')) AS c_counts
        FROM bid WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000""",
    "q15": f"SELECT {_DAY}, {_STATISTICS} FROM bid GROUP BY day",
    "q16": f"""
        SELECT channel, {_DAY}, max(strftime(dateTime, '%H:%M')) AS minute, {_STATISTICS}
        FROM bid GROUP BY channel, day""",
    "q17": f"""
        SELECT auction, {_DAY}, {_COUNTS}, min(price) AS min_price, max(price) AS max_price,
            CAST(sum(price) // count(*) AS BIGINT) AS avg_price, CAST(sum(price) AS BIGINT) AS sum_price
        FROM bid GROUP BY auction, day""",
    "q18": f"""
        SELECT {_BID} FROM bid
        QUALIFY row_number() OVER (PARTITION BY bidder, auction ORDER BY dateTime DESC, event_id DESC) = 1""",
    "q19": f"""
        SELECT {_BID}, row_number() OVER (PARTITION BY auction ORDER BY price DESC, event_id) AS rank_number FROM bid
        QUALIFY rank_number <= 10""",
    "q20": """
        SELECT b.auction, b.bidder, b.price, b.channel, b.url, b.dateTime AS bid_dateTime, b.extra AS bid_extra,
            a.itemName, a.description, a.initialBid, a.reserve, a.dateTime AS auction_dateTime, a.expires, a.seller,
            a.category, a.extra AS auction_extra
        FROM bid b JOIN auction a ON b.auction = a.id WHERE a.category = 10""",
    "q21": """
        SELECT auction, bidder, price, channel,
            CASE lower(channel) WHEN 'apple' THEN '0' WHEN 'google' THEN '1' WHEN 'facebook' THEN '2'
                WHEN 'baidu' THEN '3' ELSE nullif(regexp_extract(url, '(&|^)channel_id=([^&]*)', 2), '') END
            AS channel_id
        FROM bid WHERE channel_id IS NOT NULL""",
    "q22": """
        SELECT auction, bidder, price, channel, split_part(url, '/', 4) AS dir1, split_part(url, '/', 5) AS dir2,
            split_part(url, '/', 6) AS dir3 FROM bid""",
}
QUERIES = tuple(sorted([*SQL, *PYTHON], key=lambda name: (name[0] == "c", int(name[1:]))))


class Oracle:
    """The right answers for one data set: persons, auctions and bids as tables with `event_id`."""

    def __init__(self, tables: Mapping[str, pa.Table]) -> None:
        self._tables = {kind: _without_zone(table) for kind, table in tables.items()}
        self._database = duckdb.connect(config={"threads": 2})
        for kind, table in self._tables.items():
            self._database.register(kind, table)

    def answer(self, query: str) -> pa.Table:
        """All rows that a query must give, in any order; of a changelog, the table it ends in."""
        if query in PYTHON:
            return PYTHON[query](self._tables)
        return self.answer_of(SQL[query])

    def answer_of(self, sql: str) -> pa.Table:
        """What a query of one's own gives over the tables `person`, `auction` and `bid`."""
        return self._database.sql(sql).to_arrow_table()

    def close(self) -> None:
        """Let go of the tables."""
        self._database.close()

    def __enter__(self) -> Oracle:
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self.close()


def _without_zone(table: pa.Table) -> pa.Table:
    """Times as they read in UTC: functions of a day and an hour then need no time zone of the session."""
    for number, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type):
            column = table.column(number).cast(pa.timestamp("us"))
            table = table.set_column(number, field.name, column)
    return table
