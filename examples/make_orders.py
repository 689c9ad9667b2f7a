"""Write a small stream of orders as JSON files: a few busy customers, many quiet ones, rows a little out of order.

    python examples/make_orders.py            # 80 000 orders in demo-data/orders

The `datagen` connector makes the rows, so the same seed gives the same orders. One line in 20 000 is broken on purpose.
"""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

import millstream as ms
from millstream.connectors.collect.sink import clear, collected_table

PER_FILE = 20_000
BROKEN = (
    '{"order": 1, "customer": "c1", "amount": "twelve"}',
    '{"order": 2, "customer": "c2", "amou',
    "not json at all",
)


def generated(rows: int, seed: int) -> pa.Table:
    """The orders, made by a small job of their own."""
    job = ms.Job("make-orders")
    orders = ms.datagen(
        rows=rows,
        seed=seed,
        fields={
            "order": {"kind": "sequence"},
            "customer": {"kind": "zipf", "cardinality": 300, "prefix": "c"},
            "country": {"kind": "choice", "values": ["DE", "FR", "US", "JP"], "weights": [4, 3, 2, 1]},
            "amount": {"kind": "int", "low": -200, "high": 9_900},
            "created_at": {"kind": "timestamp", "start": "2024-05-01T12:00:00+00:00", "step": 5, "jitter": "3s"},
        },
    )
    clear("make-orders")
    job.source("orders", orders).sink("rows", ms.collect("make-orders"))
    job.run(local=True)
    return collected_table("make-orders")


def lines(table: pa.Table) -> Iterator[str]:
    """One JSON object a line; amounts are cents in the generator and decimal text here."""
    for number, row in enumerate(table.to_pylist()):
        if number % PER_FILE == PER_FILE // 2:
            yield BROKEN[number // PER_FILE % len(BROKEN)]
        amount = f"{row['amount'] / 100:.2f}"
        yield json.dumps({**row, "amount": amount, "created_at": row["created_at"].isoformat()})


def write_orders(folder: Path, rows: int = 80_000, seed: int = 7) -> int:
    """Write the files; returns how many lines there are."""
    folder.mkdir(parents=True, exist_ok=True)
    found = list(lines(generated(rows, seed)))
    for part, start in enumerate(range(0, len(found), PER_FILE)):
        path = folder / f"orders-{part:03d}.json"
        path.write_text("\n".join(found[start : start + PER_FILE]) + "\n")
        os.utime(path, (part, part))  # files are read in the order of their times
    return len(found)


if __name__ == "__main__":
    target = Path(sys.argv[1] if len(sys.argv) > 1 else "demo-data/orders")
    print(f"wrote {write_orders(target):,} lines to {target}/")
