"""A digest of rows in their order that two neighbouring stretches can be joined in, wherever they were cut."""

from __future__ import annotations

import dataclasses
import hashlib
from typing import Self

import pyarrow as pa

from millstream.contract.source import BadRecord
from millstream.records.codecs import shown_rows

_PRIME = 2**127 - 1
_FACTOR = 0x5BD1E995_9D1F29C3_2545F491_4F6CDD1D
"""Any number below the prime that is no small one."""


@dataclasses.dataclass(frozen=True, slots=True)
class ChainedDigest:
    """The rows are the digits of a number in a large base, modulo a prime."""

    rows: int = 0
    value: int = 0

    def then(self, other: Self) -> Self:
        """The digest of these rows and the others behind them."""
        value = (self.value * pow(_FACTOR, other.rows, _PRIME) + other.value) % _PRIME
        return type(self)(self.rows + other.rows, value)

    def text(self) -> str:
        """As it stands in a position; of rows that were only counted, their number."""
        return f"{self.rows}:{self.value:032x}" if self.value else str(self.rows)


def digest_of_part(part: pa.RecordBatch | BadRecord) -> ChainedDigest:
    """The digest of some rows, or of a record that is none."""
    texts = [str(part.raw)] if isinstance(part, BadRecord) else map(repr, shown_rows(part))
    value = rows = 0
    for text in texts:
        digit = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=15).digest(), "big") + 1
        value, rows = (value * _FACTOR + digit) % _PRIME, rows + 1
    return ChainedDigest(rows, value)
