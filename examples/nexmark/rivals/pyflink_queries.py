"""The queries in Flink's SQL. Plain Python without imports of ours: it runs in PyFlink's own environment."""

from __future__ import annotations

import dataclasses

_BID = "auction, bidder, price, `dateTime`, extra"
_WHOLE_BID = "auction, bidder, price, channel, url, `dateTime`, extra"
_AUCTION = "id, itemName, description, initialBid, reserve, `dateTime`, expires, seller, category, extra"
_IN_TIME = "A.id = B.auction AND B.`dateTime` BETWEEN A.`dateTime` AND A.expires"
_EUROS = "CAST(0.908 * price AS DECIMAL(23, 3))"
_DAY = "DATE_FORMAT(`dateTime`, 'yyyy-MM-dd')"
_HOP = "TABLE(HOP(TABLE bid, DESCRIPTOR(`dateTime`), INTERVAL '2' SECOND, INTERVAL '10' SECOND))"
_COUNTS = f"""SELECT auction, COUNT(*) AS num, window_start AS starttime, window_end AS endtime
    FROM {_HOP} GROUP BY auction, window_start, window_end"""
_BANDS = {
    "total": "",
    "rank1": " FILTER (WHERE price < 10000)",
    "rank2": " FILTER (WHERE price >= 10000 AND price < 1000000)",
    "rank3": " FILTER (WHERE price >= 1000000)",
}


def _per_band(measure: str, name: str) -> str:
    return ", ".join(f"{measure}{band} AS {prefix}_{name}" for prefix, band in _BANDS.items())


def _tumble(table: str) -> str:
    return f"TABLE(TUMBLE(TABLE {table}, DESCRIPTOR(`dateTime`), INTERVAL '10' SECOND))"


_BIDS_PER_BAND = _per_band("COUNT(*)", "bids")
_STATISTICS = ", ".join(
    [
        _BIDS_PER_BAND,
        _per_band("COUNT(DISTINCT bidder)", "bidders"),
        _per_band("COUNT(DISTINCT auction)", "auctions"),
    ]
)
_MATCH = "SELECT * FROM bid MATCH_RECOGNIZE (PARTITION BY auction, bidder ORDER BY `dateTime`, event_id"
_SPAN = """MEASURES FIRST(A.`dateTime`) AS start_time, LAST(A.`dateTime`) AS end_time,
    SUM(A.price) / COUNT(A.price) AS avg_price"""


@dataclasses.dataclass(frozen=True)
class FlinkQuery:
    """A query, the sums it is known by, and what it needs of its input."""

    sql: str
    sums: tuple[str, ...]
    """Over the columns of the result, beside the number of rows."""
    is_timed: bool = False
    """Whether rows that come too late would be left out."""
    on_heap: bool = False
    """Whether state is kept on the heap: patterns over RocksDB take minutes for a hundred thousand events."""
    tied: bool = False
    """Whether its result depends on the order of rows with equal times, which readers do not keep."""


def _price(sql: str, *, tied: bool = False, is_timed: bool = False) -> FlinkQuery:
    return FlinkQuery(sql, ("SUM(price)",), tied=tied, is_timed=is_timed)


def _millis(end: str, start: str) -> str:
    """The sum of spans; Flink counts whole seconds between two times, and milliseconds only as text."""
    seconds = f"TIMESTAMPDIFF(SECOND, FLOOR(`{start}` TO SECOND), FLOOR(`{end}` TO SECOND))"
    rest = " - ".join(f"CAST(DATE_FORMAT(`{name}`, 'SSS') AS BIGINT)" for name in (end, start))
    return f"SUM(CAST({seconds} AS BIGINT) * 1000 + {rest})"


QUERIES: dict[str, FlinkQuery] = {
    "q0": _price(f"SELECT {_BID} FROM bid"),
    "q1": _price(f"SELECT auction, bidder, {_EUROS} AS price, `dateTime`, extra FROM bid"),
    "q2": _price("SELECT auction, price FROM bid WHERE MOD(auction, 123) = 0"),
    "q3": FlinkQuery(
        """SELECT P.name, P.city, P.state, A.id FROM auction AS A INNER JOIN person AS P ON A.seller = P.id
        WHERE A.category = 10 AND (P.state = 'OR' OR P.state = 'ID' OR P.state = 'CA')""",
        ("SUM(id)",),
    ),
    "q4": FlinkQuery(
        f"""SELECT category, AVG(final) AS final FROM (
            SELECT MAX(B.price) AS final, A.category FROM auction A, bid B WHERE {_IN_TIME} GROUP BY A.id, A.category
        ) GROUP BY category""",
        ("SUM(final)", "SUM(final) FILTER (WHERE category = 10)"),
    ),
    "q5": FlinkQuery(
        f"""SELECT C.auction, C.num FROM ({_COUNTS}) AS C JOIN (
            SELECT MAX(num) AS maxn, starttime, endtime FROM ({_COUNTS}) GROUP BY starttime, endtime
        ) AS M ON C.starttime = M.starttime AND C.endtime = M.endtime AND C.num >= M.maxn""",
        ("SUM(num)",),
        is_timed=True,
    ),
    "q7": _price(
        f"""SELECT B.auction, B.bidder, B.price, B.`dateTime`, B.extra FROM bid B JOIN (
            SELECT MAX(price) AS maxprice, window_end AS ends FROM {_tumble("bid")} GROUP BY window_start, window_end
        ) M ON B.price = M.maxprice WHERE B.`dateTime` BETWEEN M.ends - INTERVAL '10' SECOND AND M.ends""",
        is_timed=True,
    ),
    "q8": FlinkQuery(
        f"""SELECT P.id, P.name, P.starttime FROM (
            SELECT id, name, window_start AS starttime, window_end AS endtime FROM {_tumble("person")}
            GROUP BY id, name, window_start, window_end
        ) P JOIN (
            SELECT seller, window_start AS starttime, window_end AS endtime FROM {_tumble("auction")}
            GROUP BY seller, window_start, window_end
        ) A ON P.id = A.seller AND P.starttime = A.starttime AND P.endtime = A.endtime""",
        ("SUM(id)",),
        is_timed=True,
    ),
    "q9": _price(
        f"""SELECT {_AUCTION}, auction, bidder, price, bid_dateTime, bid_extra FROM (
            SELECT A.*, B.auction, B.bidder, B.price, B.`dateTime` AS bid_dateTime, B.extra AS bid_extra,
                ROW_NUMBER() OVER (PARTITION BY A.id ORDER BY B.price DESC, B.`dateTime` ASC) AS rownum
            FROM (SELECT {_AUCTION} FROM auction) A, bid B WHERE {_IN_TIME}) WHERE rownum <= 1"""
    ),
    "q11": FlinkQuery(
        """SELECT bidder, COUNT(*) AS bid_count, window_start AS starttime, window_end AS endtime
        FROM TABLE(SESSION(TABLE bid PARTITION BY bidder, DESCRIPTOR(`dateTime`), INTERVAL '10' SECOND))
        GROUP BY bidder, window_start, window_end""",
        (_millis("endtime", "starttime"),),
        is_timed=True,
    ),
    "q14": FlinkQuery(
        f"""SELECT auction, bidder, {_EUROS} AS price,
            CASE WHEN HOUR(`dateTime`) >= 8 AND HOUR(`dateTime`) <= 18 THEN 'dayTime'
                WHEN HOUR(`dateTime`) <= 6 OR HOUR(`dateTime`) >= 20 THEN 'nightTime' ELSE 'otherTime' END
            AS bidTimeType, `dateTime`, extra,
            CHAR_LENGTH(extra) - CHAR_LENGTH(REPLACE(extra, 'c', '')) AS c_counts
        FROM bid WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000""",
        ("SUM(price)", "SUM(c_counts)"),
    ),
    "q15": FlinkQuery(
        f"SELECT {_DAY} AS `day`, {_STATISTICS} FROM bid GROUP BY {_DAY}",
        ("SUM(total_bidders)", "SUM(total_auctions)", "SUM(rank1_bids)", "SUM(rank2_bids)", "SUM(rank3_bids)"),
    ),
    "q16": FlinkQuery(
        f"""SELECT channel, {_DAY} AS `day`, MAX(DATE_FORMAT(`dateTime`, 'HH:mm')) AS `minute`, {_STATISTICS}
        FROM bid GROUP BY channel, {_DAY}""",
        ("SUM(total_bidders)", "SUM(total_auctions)"),
    ),
    "q17": FlinkQuery(
        f"""SELECT auction, {_DAY} AS `day`, {_BIDS_PER_BAND}, MIN(price) AS min_price, MAX(price) AS max_price,
            AVG(price) AS avg_price, SUM(price) AS sum_price FROM bid GROUP BY auction, {_DAY}""",
        ("SUM(avg_price)",),
    ),
    "q18": _price(
        f"""SELECT {_WHOLE_BID} FROM (
            SELECT *, ROW_NUMBER() OVER (PARTITION BY bidder, auction ORDER BY `dateTime` DESC) AS rank_number FROM bid
        ) WHERE rank_number <= 1""",
        tied=True,
    ),
    "q19": _price(
        f"""SELECT {_WHOLE_BID}, rank_number FROM (
            SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC) AS rank_number FROM bid
        ) WHERE rank_number <= 10"""
    ),
    "q20": _price(
        """SELECT B.auction, B.bidder, B.price, B.channel, B.url, B.`dateTime` AS bid_dateTime, B.extra AS bid_extra,
            A.itemName, A.description, A.initialBid, A.reserve, A.`dateTime` AS auction_dateTime, A.expires, A.seller,
            A.category, A.extra AS auction_extra
        FROM bid AS B INNER JOIN auction AS A ON B.auction = A.id WHERE A.category = 10"""
    ),
    "q21": _price(
        """SELECT auction, bidder, price, channel, CASE WHEN LOWER(channel) = 'apple' THEN '0'
            WHEN LOWER(channel) = 'google' THEN '1' WHEN LOWER(channel) = 'facebook' THEN '2'
            WHEN LOWER(channel) = 'baidu' THEN '3' ELSE REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2) END
            AS channel_id
        FROM bid WHERE REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2) IS NOT NULL
            OR LOWER(channel) IN ('apple', 'google', 'facebook', 'baidu')"""
    ),
    "q22": FlinkQuery(
        """SELECT auction, bidder, price, channel, SPLIT_INDEX(url, '/', 3) AS dir1, SPLIT_INDEX(url, '/', 4) AS dir2,
            SPLIT_INDEX(url, '/', 5) AS dir3 FROM bid""",
        ("SUM(CHAR_LENGTH(dir1))",),
    ),
    "c0": FlinkQuery(
        f"""{_MATCH}
        MEASURES START_ROW.`dateTime` AS start_time, LAST(DOWN.`dateTime`) AS bottom_time, LAST(UP.`dateTime`) AS end_time
        ONE ROW PER MATCH AFTER MATCH SKIP TO LAST UP PATTERN (START_ROW DOWN+ UP)
        DEFINE DOWN AS (LAST(DOWN.price, 1) IS NULL AND DOWN.price < START_ROW.price) OR DOWN.price < LAST(DOWN.price, 1),
            UP AS UP.price > LAST(DOWN.price, 1))""",
        (_millis("end_time", "start_time"),),
        is_timed=True,
        on_heap=True,
    ),
    "c1": FlinkQuery(
        f"""{_MATCH} {_SPAN} ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW PATTERN (A+ B)
        DEFINE A AS AVG(A.price) < 10000)""",
        ("SUM(avg_price)",),
        is_timed=True,
        on_heap=True,
    ),
    "c2": FlinkQuery(
        f"""{_MATCH} {_SPAN} ONE ROW PER MATCH AFTER MATCH SKIP TO NEXT ROW PATTERN (A+ B)
        DEFINE A AS AVG(A.price) < 10000)""",
        ("SUM(avg_price)",),
        is_timed=True,
        on_heap=True,
    ),
    "c3": FlinkQuery(
        f"""{_MATCH} MEASURES C.`dateTime` AS drop_time, A.price - C.price AS drop_diff
        ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW PATTERN (A B* C) WITHIN INTERVAL '5' SECOND
        DEFINE B AS B.price > A.price - 50, C AS C.price < A.price - 50)""",
        ("SUM(drop_diff)",),
        is_timed=True,
        on_heap=True,
    ),
    "process": FlinkQuery("", ("SUM(n)",)),
}
REFUSED = {
    "q6": "Flink's SQL does not run it (FLINK-19059)",
    "q10": "the sink is compared by q0; files with a partition commit are not measured",
    "q13": "files cannot be looked up",
    "q12": "windows of the clock do not fire at the end of bounded input",
}
KINDS: dict[str, str] = {
    "person": "id BIGINT, name STRING, emailAddress STRING, creditCard STRING, city STRING, state STRING, "
    "`dateTime` TIMESTAMP(3), extra STRING, event_id BIGINT",
    "auction": "id BIGINT, itemName STRING, description STRING, initialBid BIGINT, reserve BIGINT, "
    "`dateTime` TIMESTAMP(3), expires TIMESTAMP(3), seller BIGINT, category BIGINT, extra STRING, event_id BIGINT",
    "bid": "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, `dateTime` TIMESTAMP(3), "
    "extra STRING, event_id BIGINT",
}
