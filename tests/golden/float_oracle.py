"""Floating-point keys in every form they have: two zeros, and NaNs of other bits, which only parquet can carry."""

import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet

DOUBLES = (0x0, 0x8000000000000000, 0x7FF8000000000000, 0xFFF8000000000000, 0x7FF8000000000001, 0x3FF8000000000000)
"""The bits of 0.0, -0.0, three NaNs and 1.5."""
FLOATS = (0x0, 0x80000000, 0x7FC00000, 0xFFC00000, 0x7FC00001, 0x3FC00000)


def write_rows(folder: Path, count: int, *, seed: int) -> None:
    """Make the file of a case: `k` and `f` are keys, `v` is a value with the same forms, `n` numbers the rows."""
    draws = np.random.default_rng(seed)
    forms, others, values = (draws.integers(0, 6, count) for _ in range(3))
    is_null = draws.integers(0, 8, (2, count)) == 0
    table = pa.table(
        {
            "k": pa.array(np.array(DOUBLES, np.uint64)[forms].view(np.float64), mask=is_null[0]),
            "f": pa.array(np.array(FLOATS, np.uint32)[others].view(np.float32)),
            "v": pa.array(np.array(DOUBLES, np.uint64)[values].view(np.float64), mask=is_null[1]),
            "n": pa.array(np.arange(count)),
            "at": pa.array(np.arange(count) * 1000),
        }
    )
    folder.mkdir(exist_ok=True)
    pa.parquet.write_table(table, folder / "rows.parquet")


def read_rows(folder: Path) -> list[dict]:
    """The rows with every float in its one form."""
    return [{name: plain(value) for name, value in row.items()} for row in rows_as_they_came(folder)]


def rows_as_they_came(folder: Path) -> list[dict]:
    """The rows of a file."""
    return pa.parquet.read_table(folder / "rows.parquet").to_pylist()


def plain(value):
    """0.0 for both zeros, one NaN."""
    return value + 0.0 if isinstance(value, float) else value


def name_of(*values):
    """Values that one can find in a dict: NaN does not equal itself."""
    return tuple("nan" if isinstance(value, float) and math.isnan(value) else plain(value) for value in values)


def grouped(rows, *keys):
    """Rows by key, in their order."""
    groups = {}
    for row in rows:
        groups.setdefault(name_of(*(row[key] for key in keys)), []).append(row)
    return groups


def place_of(value):
    """Where a value stands in Spark's order: null first, NaN last."""
    return (0, 0.0) if value is None else (2, 0.0) if math.isnan(value) else (1, value)
