"""The four pattern queries of Nexmark on small inputs: greedy without backtracking, matches in the order of their starts."""

import pytest

import millstream as ms
from millstream.testing import run_job

begin = ms.pattern.begin

C0 = (
    begin("start")
    .next("down")
    .where("price < coalesce(last(down.price, 1), start.price)")
    .one_or_more().greedy().consecutive()
    .next("up").where("price > last(down.price, 1)")
    .skip_to_last("up")
)  # fmt: skip
C0_OUT = {"start": "start.at", "bottom": "last(down.at)", "end_at": "up.at"}
C1 = begin("a").where("avg(a.price) < 10000").one_or_more().greedy().consecutive().next("b")
C1_OUT = {"first_at": "first(a.at)", "last_at": "last(a.at)", "mean": "cast(avg(a.price) as bigint)"}
C3 = (
    begin("a")
    .next("b").where("price > a.price - 50").one_or_more().optional().greedy().consecutive()
    .next("c").where("price < a.price - 50")
    .within("5s").skip_past_last_event()
)  # fmt: skip
C3_OUT = {"at": "c.at", "drop": "a.price - c.price"}
QUERIES = {
    "c0": (C0, C0_OUT),
    "c1": (C1.skip_past_last_event(), C1_OUT),
    "c2": (C1.skip_to_next(), C1_OUT),
    "c3": (C3, C3_OUT),
}


def job_of(pattern, measures):
    job = ms.Job("queries", max_parallelism=8)
    bids = job.source("in", ms.memory([]), schema="auction long, bidder long, price long, at long, event_id long")
    bids = bids.event_time("at", max_delay="1h").key_by("auction", "bidder")
    bids.pattern(pattern, order_by="event_id").measures(id="p", **measures).sink("out", ms.collect("out"))
    return job


def run(query, prices, *, times=None, **options):
    rows = [
        {
            "auction": 1,
            "bidder": 2,
            "price": price,
            "at": place * 1000 if times is None else times[place],
            "event_id": place,
        }
        for place, price in enumerate(prices)
    ]
    made = run_job(job_of(*QUERIES[query]), {"in": rows}, **options)["out"]
    names = list(QUERIES[query][1])
    return [tuple(row[name] for name in names) for row in made]


@pytest.mark.parametrize(
    ("prices", "expected"),
    [
        ([9, 8, 7, 9], [(0, 2000, 3000)]),
        ([9, 8, 9], []),  # one DOWN row: there is no second-last
        ([9, 8, 7, 8], []),  # UP must be above the second-last DOWN
        ([9, 8, 7, 8, 9], []),  # a row that is neither ends the candidate
        ([9, 8, 7, 6, 8], [(0, 3000, 4000)]),
        # The next search starts at the UP row.
        ([9, 8, 7, 9, 5, 4, 6], [(0, 2000, 3000), (3000, 5000, 6000)]),
        # 9 8 7 8 fails, then 8 7 8 has one DOWN, 7 8 none; 8 6 5 7 matches.
        ([9, 8, 7, 8, 6, 5, 7], [(3000, 5000, 6000)]),
        ([9, 8, 7], []),
    ],
)
def test_falling_prices_and_a_rise(prices, expected):
    assert run("c0", prices) == expected
    assert run("c0", prices, rows_per_epoch=1, parallelism=2) == expected


@pytest.mark.parametrize(
    ("prices", "past_last", "to_next"),
    [
        ([9000, 10_999, 99_999], [(0, 1000, 9999)], [(0, 1000, 9999)]),
        ([9000, 11_000, 5000, 1], [(0, 0, 9000)], [(0, 0, 9000)]),
        (
            [4000, 5000, 90_000, 100, 99_999],
            [(0, 1000, 4500), (3000, 3000, 100)],
            [(0, 1000, 4500), (1000, 1000, 5000), (3000, 3000, 100)],
        ),
        ([1, 2, 3], [], []),  # an open run at the end gives nothing
        ([20_000, 20_000], [], []),
    ],
)
def test_a_low_mean_until_a_row_breaks_it(prices, past_last, to_next):
    assert run("c1", prices) == past_last
    assert run("c2", prices) == to_next
    assert run("c2", prices, rows_per_epoch=2) == to_next


def test_an_open_run_holds_back_later_matches():
    """Row 0 alone would match at row 2 only in the end; `100` never breaks, so what it holds back is not given."""
    prices = [9999, 100, 100]
    assert run("c1", prices) == []
    # 1 keeps its mean low over 29 000 and stays open; the run that starts at 9000 ended there, but must wait.
    assert run("c2", [1, 9000, 19_000, 1]) == []
    assert run("c2", [1, 9000, 19_000, 90_000]) == [(0, 2000, 9333), (1000, 1000, 9000)]


@pytest.mark.parametrize(
    ("prices", "times", "expected"),
    [
        ([100, 60, 80, 49], [0, 1000, 2000, 4999], [(4999, 51)]),
        ([100, 60, 80, 49], [0, 1000, 2000, 5000], []),  # 5 s after the first row is too late; 60 → 49 falls too little
        ([100, 49], [0, 10], [(10, 51)]),
        ([100, 50, 49], [0, 10, 20], []),  # equal ends the candidate
        ([100, 49, 200, 10], [0, 10, 20, 30], [(10, 51), (30, 190)]),
        # The candidate of row 0 is open until its time is over; then the match of row 1 comes.
        ([100, 300, 60, 220, 51], [0, 10, 20, 30, 40], [(20, 240), (40, 169)]),
    ],
)
def test_a_drop_in_time(prices, times, expected):
    assert run("c3", prices, times=times) == expected
    assert run("c3", prices, times=times, rows_per_epoch=1, parallelism=3) == expected
