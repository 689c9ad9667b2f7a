"""Where a source stands, as a value: everything up to a key is read, and so far the reading goes.

`at` is the key of the last row that was dealt out, `upper` the bound that is frozen until it is reached, `cuts` the boundaries
inside the epoch that ended here. Ranges between two positions follow from them alone, so a replayed epoch has the same ones.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from millstream.connectors.jdbc.reading.keys import Key, KeyColumn, KeyValues
from millstream.contract.source import Position
from millstream.errors import CheckpointRefused


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class KeyPosition:
    """The position of a source that is read by its key."""

    key: Key
    upper: KeyValues | None
    """The last key of the range that is read now; `None` before there is one, and where there are no rows."""
    at: KeyValues | None = None
    rows: int = 0
    """Rows that were dealt out; more, where keys are not unique, and fewer, where rows vanished since."""
    is_done: bool = False
    """Everything up to `upper` is dealt out."""
    has_nulls: bool = False
    """The rows without a key are dealt out, too."""
    cuts: tuple[KeyValues, ...] = ()
    run: str = ""
    """The lineage whose run froze the bound; empty in the first run."""

    def to_json(self) -> Position:
        """As plans hold it."""
        return {
            "key": [column.to_json() for column in self.key],
            "upper": self.upper,
            "at": self.at,
            "rows": self.rows,
            "done": self.is_done,
            "nulls": self.has_nulls,
            "cuts": list(self.cuts),
            **({"run": self.run} if self.run else {}),
        }

    @staticmethod
    def from_json(value: Any, names: tuple[str, ...], *, step: str) -> KeyPosition:
        """Read `to_json` for a source with these key columns.

        Raises:
            CheckpointRefused: (JDBC-035) it is the position of a source with another key.
        """
        key = tuple(KeyColumn.from_json(column) for column in value.get("key", ()))
        known = tuple(column.name for column in key)
        if known != names:
            msg = "the position in the checkpoint belongs to another key"
            hint = "give the key back that the job was started with, or start with a new checkpoint"
            raise CheckpointRefused(msg, code="JDBC-035", step=step, found=list(names), known=list(known), hint=hint)
        return KeyPosition(
            key=key,
            upper=value["upper"],
            at=value["at"],
            rows=value["rows"],
            is_done=value["done"],
            has_nulls=value["nulls"],
            cuts=tuple(value["cuts"]),
            run=value.get("run", ""),
        )

    def ranges_from(self, start: KeyPosition) -> list[tuple[KeyValues | None, KeyValues]]:
        """The ranges between another position and this one, in order."""
        if self.at is None or self.at == start.at:
            return []
        ends = [*self.cuts, *([] if self.at in self.cuts else [self.at])]
        return list(zip([start.at, *ends[:-1]], ends, strict=True))
