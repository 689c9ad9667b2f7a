"""Generates columns in blocks. Each block of a field has a random stream of its own, so any cut gives equal values."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from millstream.connectors.datagen.spec import start_us, step_us
from millstream.connectors.ranges import BLOCK

Parameters = Mapping[str, Any]
Numbers = npt.NDArray[Any]
Random = np.random.Generator


def column(name: str, field: Parameters, seed: int, first: int, end: int) -> pa.Array:
    """Values of a field for the rows from `first` up to `end`."""
    draw, finish = _KINDS[field["kind"]]
    stream = zlib.crc32(name.encode())
    values, nulls = [], []
    for block in range(first // BLOCK, -(-end // BLOCK)):
        random = np.random.default_rng([seed, stream, block])
        rows = np.arange(block * BLOCK, (block + 1) * BLOCK, dtype=np.int64)
        cut = slice(max(0, first - block * BLOCK), min(BLOCK, end - block * BLOCK))
        values.append(draw(field, random, rows)[cut])
        if field["nulls"]:
            nulls.append(random.random(BLOCK)[cut] < field["nulls"])
    column = finish(field, np.concatenate(values))
    if not nulls:
        return column
    return pc.if_else(pa.array(np.concatenate(nulls)), pa.scalar(None, column.type), column)


def _sequence(field: Parameters, random: Random, rows: Numbers) -> Numbers:
    return rows * np.int64(field["step"]) + np.int64(field["start"])


def _int(field: Parameters, random: Random, rows: Numbers) -> Numbers:
    return random.integers(field["low"], field["high"], BLOCK, dtype=np.int64)


def _float(field: Parameters, random: Random, rows: Numbers) -> Numbers:
    values: Numbers = random.random(BLOCK) * (field["high"] - field["low"]) + field["low"]
    return values if field["decimals"] is None else np.round(values, field["decimals"])


def _choice(field: Parameters, random: Random, rows: Numbers) -> Numbers:
    weights = np.asarray(field["weights"] or [1] * len(field["values"]), dtype=np.float64)
    bounds = np.cumsum(weights) / weights.sum()
    return np.minimum(np.searchsorted(bounds, random.random(BLOCK), side="right"), len(weights) - 1)


def _string(field: Parameters, random: Random, rows: Numbers) -> Numbers:
    return random.integers(0, field["cardinality"], BLOCK, dtype=np.int64)


def _timestamp(field: Parameters, random: Random, rows: Numbers) -> Numbers:
    instants: Numbers = start_us(field["start"]) + rows * np.int64(step_us(field["step"]))
    jitter = step_us(field["jitter"])
    # Rows come late, never early, so the delay a watermark must allow is the jitter.
    return instants - random.integers(0, jitter + 1, BLOCK, dtype=np.int64) if jitter else instants


def _zipf(field: Parameters, random: Random, rows: Numbers) -> Numbers:
    """Ranks by the inverse of the distribution function of a bounded power law: 0 is the most frequent."""
    size, exponent, uniform = field["cardinality"], float(field["exponent"]), random.random(BLOCK)
    if exponent == 1.0:
        ranks = np.exp(uniform * np.log(size + 1))
    else:
        power = 1.0 - exponent
        ranks = (uniform * ((size + 1) ** power - 1) + 1) ** (1 / power)
    places: Numbers = np.clip(ranks.astype(np.int64) - 1, 0, size - 1)
    return places


def _numbers(field: Parameters, values: Numbers) -> pa.Array:
    return pa.array(values)


def _values(field: Parameters, values: Numbers) -> pa.Array:
    return pa.array(field["values"]).take(pa.array(values))


def _instants(field: Parameters, values: Numbers) -> pa.Array:
    return pa.array(values).view(pa.timestamp("us", tz="UTC"))


def _texts(field: Parameters, values: Numbers) -> pa.Array:
    if field["prefix"] is None:
        return pa.array(values)
    return pc.binary_join_element_wise(field["prefix"], pa.array(values).cast(pa.string()), "")


_KINDS: dict[
    str, tuple[Callable[[Parameters, Random, Numbers], Numbers], Callable[[Parameters, Numbers], pa.Array]]
] = {
    "sequence": (_sequence, _numbers),
    "int": (_int, _numbers),
    "float": (_float, _numbers),
    "choice": (_choice, _values),
    "string": (_string, _texts),
    "timestamp": (_timestamp, _instants),
    "zipf": (_zipf, _texts),
}
