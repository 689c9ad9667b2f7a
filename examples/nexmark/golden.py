"""Known answers for 100 thousand and 1 million events (seed 42, 10 000 events per second, base 2026-01-01T00:00Z).

python -m examples.nexmark.golden --events 1000000
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import time
from decimal import Decimal

import duckdb
import pyarrow as pa
from examples.nexmark.data import tables
from examples.nexmark.oracle import Oracle

SIZES = (100_000, 1_000_000)
Values = tuple[Decimal, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Golden:
    """The number of rows and further sums over the result of a query, for each size."""

    sums: str
    """SQL over the columns of the result."""
    values: tuple[str, str]
    """For each size the number of rows and the sums, separated by blanks."""

    def expected(self, events: int) -> Values:
        """The figures for a number of events."""
        return tuple(map(Decimal, self.values[SIZES.index(events)].split()))

    def found(self, result: pa.Table) -> Values:
        """The figures of a result."""
        with duckdb.connect() as database:
            database.register("result", result)
            row = database.execute(f"SELECT count(*), {self.sums} FROM result").fetchone()
        return tuple(Decimal(str(value if value is not None else 0)) for value in row or ())


_PRICE = "sum(price)"
_AVERAGE = "sum(avg_price)"
_BIDS = Golden(_PRICE, ("92000 666274821949", "920000 6638284024045"))
GOLDEN: dict[str, Golden] = {
    "q0": _BIDS,
    "q1": Golden(_PRICE, ("92000 604977538329.692", "920000 6027561893832.860")),
    "q2": Golden(_PRICE, ("359 2396926501", "6822 47716266378")),
    "q3": Golden("sum(id)", ("567 2391164", "5820 183502355")),
    "q4": Golden(
        "sum(final), sum(final) FILTER (WHERE category = 10)",
        ("5 145784959 28169576", "5 144631587 28658690"),
    ),
    "q5": Golden("sum(num)", ("9 7288", "54 44504")),
    "q6": Golden("sum(avg)", ("912 26452121854", "10016 290640642579")),
    "q7": Golden(_PRICE, ("1 99967446", "10 999846502")),
    "q8": Golden("sum(id)", ("961 1681701", "8432 89991868")),
    "q9": Golden(_PRICE, ("5613 163681356914", "55920 1617538863245")),
    "q10": _BIDS,
    "q11": Golden("sum(epoch_ms(endtime) - epoch_ms(starttime))", ("1928 25429050", "19919 280659903")),
    "q13": Golden("sum(CAST(value AS BIGINT))", ("92000 363717465", "920000 4577258067")),
    "q14": Golden("sum(price), sum(c_counts)", ("25882 323392690758.848 67151", "259171 3247923191875.744 674778")),
    "q15": Golden(
        "sum(total_bidders), sum(total_auctions), sum(rank1_bids), sum(rank2_bids), sum(rank3_bids)",
        ("1 1928 5998 31002 30440 30558", "1 19919 59961 308159 306631 305210"),
    ),
    "q16": Golden("sum(total_bidders), sum(total_auctions)", ("9893 48609 60540", "10004 491842 603934")),
    "q17": Golden(_AVERAGE, ("5998 43929779713", "59961 432776045033")),
    "q18": Golden(_PRICE, ("28081 204958834405", "292453 2119679948777")),
    "q19": Golden(_PRICE, ("43851 389160349040", "440598 3824256445932")),
    "q20": Golden(_PRICE, ("19795 139757608205", "188751 1353719789923")),
    "q21": Golden(_PRICE, ("87425 632661940890", "874362 6308972957777")),
    "q22": Golden("sum(length(dir1))", ("92000 321974", "920000 3220346")),
    "c0": Golden("sum(epoch_ms(end_time) - epoch_ms(start_time))", ("4299 90482", "41082 882981")),
    "c1": Golden(_AVERAGE, ("13771 34062585", "135254 335998279")),
    "c2": Golden(_AVERAGE, ("20027 49486804", "196039 486878750")),
    "c3": Golden("sum(drop_diff)", ("17804 154786891568", "172907 1516819184488")),
}


def main() -> None:
    """Compute every answer and compare it with the known figures; exit code 1 when one differs."""
    arguments = argparse.ArgumentParser(description="Compare the oracle with the known answers.")
    arguments.add_argument("--events", type=int, choices=SIZES, default=SIZES[0])
    events = arguments.parse_args().events
    wrong = 0
    with Oracle(tables(events)) as oracle:
        for query, golden in GOLDEN.items():
            started = time.perf_counter()
            found, expected = golden.found(oracle.answer(query)), golden.expected(events)
            wrong += found != expected
            verdict = "equal" if found == expected else f"DIFFERS from {_text(expected)}"
            print(f"{query:4} {time.perf_counter() - started:6.2f} s  {_text(found):50} {verdict}", flush=True)
    print(f"{len(GOLDEN) - wrong} of {len(GOLDEN)} queries equal the known answers for {events} events")
    sys.exit(1 if wrong else 0)


def _text(values: Values) -> str:
    return ", ".join(map(str, values))


if __name__ == "__main__":
    main()
