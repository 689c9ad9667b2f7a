"""The data set of the Nexmark queries: three Arrow tables in memory, or Parquet files that are written once.

python -m examples.nexmark.data --events 1000000 --out nexmark-data
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pyarrow as pa

from millstream.connectors.nexmark.dataset import EVENTS_PER_FILE, event_table, write_parquet
from millstream.connectors.nexmark.spec import nexmark

KINDS = ("person", "auction", "bid")


def tables(events: int, **options: Any) -> dict[str, pa.Table]:
    """All persons, auctions and bids; `options` as those of `ms.nexmark`."""
    return {kind: event_table(nexmark(events, kinds=kind, **options)) for kind in KINDS}


def dataset(
    folder: Path,
    events: int,
    kinds: tuple[str, ...] = KINDS,
    *,
    events_per_file: int = EVENTS_PER_FILE,
    **options: Any,
) -> dict[str, Path]:
    """A folder of Parquet files for each kind; what an earlier call with the same options wrote is used again."""
    found = {}
    for kind in kinds:
        spec = nexmark(events, kinds=kind, **options)
        found[kind] = folder / kind
        # Readers pass over a name that begins with an underscore.
        marker = found[kind] / "_complete.json"
        wanted = json.dumps({**spec.options, "events_per_file": events_per_file}, sort_keys=True)
        if not marker.exists() or marker.read_text() != wanted:
            marker.unlink(missing_ok=True)
            write_parquet(found[kind], spec, events_per_file=events_per_file)
            marker.write_text(wanted)
    return found


def main() -> None:
    """Write the data set that the arguments describe."""
    arguments = argparse.ArgumentParser(description="Write Nexmark events as Parquet files.")
    arguments.add_argument("--events", type=int, default=1_000_000)
    arguments.add_argument("--seed", type=int, default=42)
    arguments.add_argument("--rate", type=float, default=10_000)
    arguments.add_argument("--out", type=Path, required=True)
    given = arguments.parse_args()
    for kind, folder in dataset(given.out, given.events, seed=given.seed, rate=given.rate).items():
        print(f"{kind}: {folder}")


if __name__ == "__main__":
    main()
