"""Random numbers drawn by position, without state: the SplitMix64 finaliser over a seed, a field and an index."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[Any]
"""Whole numbers, 64 bits each."""

_MASK = 2**64 - 1
_GOLDEN = 0x9E3779B97F4A7C15
_ROUNDS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
_HALF = np.uint64(32)


def mix(value: int) -> int:
    """Spread one number over 64 bits."""
    for shift, factor in _ROUNDS:
        value = (value ^ (value >> shift)) * factor & _MASK
    return value ^ (value >> 31)


class Draws:
    """What every index draws for a field; a draw depends on the seed, the index and the field alone."""

    def __init__(self, seed: int, index: Numbers) -> None:
        self._seed = seed
        self._steps = (index.astype(np.uint64) + np.uint64(1)) * np.uint64(_GOLDEN)

    def hashed(self, field: int) -> Numbers:
        """64 random bits."""
        key = mix((self._seed + _GOLDEN * (field + 1)) & _MASK)
        bits: Numbers = self._steps + np.uint64(key)
        for shift, factor in _ROUNDS:
            bits ^= bits >> np.uint64(shift)
            bits *= np.uint64(factor)
        bits ^= bits >> np.uint64(31)
        return bits

    def below(self, field: int, bound: int | Numbers) -> Numbers:
        """A whole number from 0 up to the bound, excluded."""
        limit = np.uint64(bound) if isinstance(bound, int) else bound.astype(np.uint64)
        drawn: Numbers = (((self.hashed(field) >> _HALF) * limit) >> _HALF).view(np.int64)
        return drawn

    def unit(self, field: int) -> npt.NDArray[np.float64]:
        """A number from 0 up to 1, excluded."""
        return (self.hashed(field) >> np.uint64(11)).astype(np.float64) / 2.0**53

    def price(self, field: int) -> Numbers:
        """From 100 to 10^8; its logarithm is even."""
        amount: Numbers = np.floor(np.power(10.0, 6.0 * self.unit(field)) * 100.0 + 0.5).astype(np.int64)
        return amount
