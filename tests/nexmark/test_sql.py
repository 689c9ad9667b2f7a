"""Queries of the benchmark as SQL statements give exactly the oracle's rows; those of changelogs when the input ends."""

import re

import pytest
from examples.nexmark.compare import difference
from examples.nexmark.data import tables
from examples.nexmark.oracle import Oracle
from examples.nexmark.queries.events import MAX_DELAY

import millstream as ms
from millstream.testing import run_job

EVENTS = 5_000
BANDS = {
    "total": "TRUE",
    "rank1": "price < 10000",
    "rank2": "price >= 10000 AND price < 1000000",
    "rank3": "price >= 1000000",
}


def per_band(measure, name):
    return ", ".join(f"{measure} FILTER (WHERE {where}) AS {band}_{name}" for band, where in BANDS.items())


DAY = "date_format(dateTime, 'yyyy-MM-dd')"
COUNTS = per_band("COUNT(*)", "bids")
STATISTICS = ", ".join(
    [COUNTS, per_band("COUNT(DISTINCT bidder)", "bidders"), per_band("COUNT(DISTINCT auction)", "auctions")]
)
HOP = "HOP(TABLE bid, DESCRIPTOR(dateTime), INTERVAL '2' SECOND, INTERVAL '10' SECOND)"
IN_TIME = "auction a JOIN bid b ON b.auction = a.id AND b.dateTime BETWEEN a.dateTime AND a.expires"
STATEMENTS = {
    "q0": "SELECT auction, bidder, price, dateTime, extra FROM bid",
    "q1": "SELECT auction, bidder, CAST(0.908 * price AS DECIMAL(23, 3)) AS price, dateTime, extra FROM bid",
    "q2": "SELECT auction, price FROM bid WHERE auction % 123 = 0",
    "q3": """
        SELECT p.name, p.city, p.state, a.id FROM auction AS a INNER JOIN person AS p ON a.seller = p.id
        WHERE a.category = 10 AND (p.state = 'OR' OR p.state = 'ID' OR p.state = 'CA')""",
    "q4": f"""
        SELECT category, SUM(final) DIV COUNT(*) AS final FROM (
          SELECT a.id, a.category, MAX(b.price) AS final FROM {IN_TIME} GROUP BY a.id, a.category
        ) GROUP BY category""",
    "q5": f"""
        WITH counts AS (
          SELECT auction, COUNT(*) AS num, window_start, window_end FROM {HOP} GROUP BY auction, window_start, window_end
        ), most AS (
          SELECT MAX(num) AS num, window_start, window_end FROM counts GROUP BY window_start, window_end
        )
        SELECT c.auction, c.num, c.window_start, c.window_end FROM counts c JOIN most m
        ON c.window_start = m.window_start AND c.window_end = m.window_end AND c.num >= m.num""",
    "q7": """
        SELECT b.auction, b.bidder, b.price, b.dateTime, b.extra FROM bid b JOIN (
          SELECT MAX(price) AS price, window_end AS ends
          FROM TUMBLE(TABLE bid, DESCRIPTOR(dateTime), INTERVAL '10' SECOND) GROUP BY window_start, window_end
        ) h ON b.price = h.price WHERE b.dateTime BETWEEN h.ends - INTERVAL '10' SECOND AND h.ends""",
    "q8": """
        SELECT p.id, p.name, p.starttime FROM (
          SELECT id, name, window_start AS starttime, window_end AS endtime
          FROM TUMBLE(TABLE person, DESCRIPTOR(dateTime), INTERVAL '10' SECOND) GROUP BY id, name, window_start, window_end
        ) p JOIN (
          SELECT seller, window_start AS starttime, window_end AS endtime
          FROM TUMBLE(TABLE auction, DESCRIPTOR(dateTime), INTERVAL '10' SECOND) GROUP BY seller, window_start, window_end
        ) a ON p.id = a.seller AND p.starttime = a.starttime AND p.endtime = a.endtime""",
    "q11": """
        SELECT bidder, COUNT(*) AS bid_count, session_window.start AS starttime, session_window.end AS endtime
        FROM bid GROUP BY bidder, session_window(dateTime, '10 seconds')""",
    "q14": """
        SELECT auction, bidder, CAST(0.908 * price AS DECIMAL(23, 3)) AS price, dateTime, extra,
          CASE WHEN hour(dateTime) >= 8 AND hour(dateTime) <= 18 THEN 'dayTime'
            WHEN hour(dateTime) <= 6 OR hour(dateTime) >= 20 THEN 'nightTime' ELSE 'otherTime' END AS bidTimeType,
          length(extra) - length(replace(extra, 'c', '')) AS c_counts
        FROM bid WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000""",
    "q15": f"SELECT {DAY} AS day, {STATISTICS} FROM bid GROUP BY {DAY}",
    "q16": f"""
        SELECT channel, {DAY} AS day, MAX(date_format(dateTime, 'HH:mm')) AS minute, {STATISTICS}
        FROM bid GROUP BY channel, day""",
    "q17": f"""
        SELECT auction, {DAY} AS day, {COUNTS}, MIN(price) AS min_price, MAX(price) AS max_price,
          SUM(price) DIV COUNT(*) AS avg_price, SUM(price) AS sum_price FROM bid GROUP BY auction, {DAY}""",
    "q18": """
        SELECT auction, bidder, price, channel, url, dateTime, extra FROM (
          SELECT *, ROW_NUMBER() OVER (PARTITION BY bidder, auction ORDER BY dateTime DESC, event_id DESC) AS rank_number
          FROM bid) WHERE rank_number <= 1""",
    "q19": """
        SELECT * EXCEPT (event_id) FROM (
          SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC, event_id) AS rank_number FROM bid
        ) WHERE rank_number <= 10""",
    "q20": """
        SELECT b.auction, b.bidder, b.price, b.channel, b.url, b.dateTime AS bid_dateTime, b.extra AS bid_extra,
          a.itemName, a.description, a.initialBid, a.reserve, a.dateTime AS auction_dateTime, a.expires, a.seller,
          a.category, a.extra AS auction_extra
        FROM bid AS b INNER JOIN auction AS a ON b.auction = a.id WHERE a.category = 10""",
    "q21": r"""
        SELECT * FROM (
          SELECT auction, bidder, price, channel, CASE lower(channel)
            WHEN 'apple' THEN '0' WHEN 'google' THEN '1' WHEN 'facebook' THEN '2' WHEN 'baidu' THEN '3'
            ELSE nullif(regexp_extract(url, '(&|^)channel_id=([^&]*)', 2), '') END AS channel_id
          FROM bid) WHERE channel_id IS NOT NULL""",
}
CHANGELOGS = {"q4", "q15", "q16", "q17", "q18", "q19"}
KINDS = ("bid", "auction", "person")


@pytest.fixture(scope="module")
def oracle():
    with Oracle(tables(EVENTS)) as found:
        yield found


def streams(job, text):
    """The events that a statement names."""
    return {
        kind: job.source(kind, ms.nexmark(EVENTS, kinds=kind)).event_time("dateTime", max_delay=MAX_DELAY)
        for kind in KINDS
        if re.search(rf"(FROM|JOIN|TABLE) {kind}\b", text)
    }


@pytest.mark.parametrize("query", STATEMENTS)
def test_a_statement_gives_the_rows_of_the_oracle(query, oracle):
    job, text = ms.Job(query), " ".join(STATEMENTS[query].split())
    options = {"emit": "end"} if query in CHANGELOGS else {}
    job.sql(text, id=query, **options, **streams(job, text)).sink("out", ms.collect("out"))
    found = run_job(job, {}, rows_per_epoch=2000)["out"]
    assert found
    assert str(difference(oracle.answer(query), found)) == "equal"


@pytest.mark.parametrize("query", ["q5", "q7", "q8"])
def test_joins_of_windows_forget(query):
    """Event time bounds every join, so that no row is kept for ever."""
    job, text = ms.Job(query), " ".join(STATEMENTS[query].split())
    job.sql(text, id=query, **streams(job, text))
    join = next(step.operation for step in job.model.steps if step.id == query)
    assert (join.lower, join.upper) == {"q7": (-1, 9999)}.get(query, (0, 0))
