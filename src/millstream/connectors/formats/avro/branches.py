"""Whether the unions of messages name branches that there are: readers take a number beyond them for some branch.

Messages are walked side by side, field by field, as far as the last union goes. They were read before, so their lengths are
right; what stands behind a branch that is none is anything, and is not followed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

_SIZES = {"boolean": 1, "float": 4, "double": 8}
_LONGEST_VARINT = 10
_SIDE_BY_SIDE = 4096
"""Messages that are walked at once: what is known of them stays near the processor."""


def has_unions(wire: Any) -> bool:
    """Whether a wire form has a union anywhere."""
    match wire:
        case list():
            return True
        case {"type": "record", "fields": fields}:
            return any(has_unions(field["type"]) for field in fields)
        case {"type": "array", "items": items}:
            return has_unions(items)
    return False


def has_strange_branches(bodies: Sequence[bytes], wire: Mapping[str, Any]) -> bool:
    """Whether a message has a union whose branch is none of its own; `wire` are the fields of a message."""
    kinds = list(wire.values())
    while kinds and not has_unions(kinds[-1]):
        kinds.pop()
    return any(
        _is_strange(bodies[begin : begin + _SIDE_BY_SIDE], kinds) for begin in range(0, len(bodies), _SIDE_BY_SIDE)
    )


def _is_strange(bodies: Sequence[bytes], kinds: Sequence[Any]) -> bool:
    lengths = np.fromiter(map(len, bodies), np.int64, len(bodies))
    walk = _MessageWalk(np.frombuffer(b"".join(bodies), np.uint8))
    at = np.cumsum(lengths) - lengths
    try:
        for kind in kinds:
            at = walk.over(kind, at)
    except _StrangeBranch:
        return True
    return False


class _StrangeBranch(Exception):
    """A union names a branch that it does not have."""


class _MessageWalk:
    """Passes over values of many messages at once; each call takes where they begin, and gives where they end."""

    def __init__(self, data: np.ndarray) -> None:
        self._data = data

    def over(self, kind: Any, at: np.ndarray) -> np.ndarray:
        """Pass over one value of each message."""
        match kind:
            case list():
                return self._over_union(kind, at)
            case {"type": "record", "fields": fields}:
                for field in fields:
                    at = self.over(field["type"], at)
                return at
            case {"type": "array", "items": items}:
                return self._over_array(items, at)
            case {"type": "fixed", "size": size}:
                return at + int(size)
            case "string" | "bytes":
                lengths, end = self._numbers(at)
                end += lengths
                return end
            case "long":
                return self._numbers(at)[1]
            case _:
                return at + _SIZES[kind]

    def _over_union(self, branches: Sequence[Any], at: np.ndarray) -> np.ndarray:
        numbers, at = self._numbers(at)
        if len(numbers) and not 0 <= numbers.min() <= numbers.max() < len(branches):
            raise _StrangeBranch
        for number, kind in enumerate(branches):
            if kind != "null":
                at = self._over_some(kind, at, numbers == number)
        return at

    def _over_some(self, kind: Any, at: np.ndarray, is_there: np.ndarray) -> np.ndarray:
        """Pass over a value where there is one."""
        if is_there.all():
            return self.over(kind, at)
        if is_there.any():
            at = at.copy()
            at[is_there] = self.over(kind, at[is_there])
        return at

    def _over_array(self, items: Any, at: np.ndarray) -> np.ndarray:
        """Blocks of items, until one has none; below zero, a count is followed by the bytes of its block."""
        is_open = np.ones(len(at), bool)
        while is_open.any():
            counts = np.zeros(len(at), np.int64)
            at = at.copy()
            counts[is_open], at[is_open] = self._numbers(at[is_open])
            at = self._over_some("long", at, counts < 0)
            counts = np.abs(counts)
            is_open = counts > 0
            for passed in range(int(counts.max(initial=0))):
                at = self._over_some(items, at, counts > passed)
        return at

    def _numbers(self, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Whole numbers, and where they end."""
        byte = self._data[at]
        at = at + 1
        if not (byte > 127).any():
            small = byte.astype(np.int64)
            return (small >> 1) ^ -(small & 1), at
        found = (byte & 127).astype(np.uint64)
        going, shift = np.flatnonzero(byte > 127), 7
        while len(going) and shift < 7 * _LONGEST_VARINT:
            byte = self._data[at[going]]
            found[going] |= (byte & 127).astype(np.uint64) << np.uint64(shift)
            at[going] += 1
            going = going[byte > 127]
            shift += 7
        return (found >> np.uint64(1)).astype(np.int64) ^ -(found & np.uint64(1)).astype(np.int64), at
