"""Labels that make slot and shuffle partition the same thing.

Spark sends a row with key `label` to partition `pmod(hash(label), P)`. Choosing one label per partition gives a bijection, so
subtask i is shuffle partition i and key groups are spread evenly by range.
"""

from __future__ import annotations

_MASK = 0xFFFFFFFF
_SEED = 42


def slot_labels(parallelism: int) -> list[int]:
    """One label per subtask: label i goes to shuffle partition i."""
    labels: dict[int, int] = {}
    candidate = 0
    while len(labels) < parallelism:
        labels.setdefault(spark_hash(candidate) % parallelism, candidate)
        candidate += 1
    return [labels[partition] for partition in range(parallelism)]


def spark_hash(value: int) -> int:
    """Spark's `hash` of one int: Murmur3 with 32 bits and seed 42, as a signed number."""
    block = _rotated(value * 0xCC9E2D51 & _MASK, 15) * 0x1B873593 & _MASK
    mixed = (_rotated(_SEED ^ block, 13) * 5 + 0xE6546B64) & _MASK
    mixed ^= 4
    mixed = (mixed ^ mixed >> 16) * 0x85EBCA6B & _MASK
    mixed = (mixed ^ mixed >> 13) * 0xC2B2AE35 & _MASK
    mixed ^= mixed >> 16
    return mixed - (1 << 32) if mixed >> 31 else mixed


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> (32 - bits)) & _MASK
