"""The row that a step took and failed on, as its dead letter keeps it: so that the step can take it again, as it was.

A letter's `record` is for people: it may be what the step made, and its text does not tell a number from its digits. Beside it
stands JSON of values as `connectors.json_values` reads them, with the event time that the row had.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from millstream.records.batch import Batch
from millstream.records.codecs import shown_rows

MADE = b"{}"
"""Instead of a row: the letter holds one of several rows that a step made from a good one, which it need not take again."""


class TakenRow(NamedTuple):
    """A row as a step took it, and its event time if it had one."""

    row: Any
    time: int | None = None


def raw_row(taken: TakenRow) -> bytes | None:
    """A row as letters keep it; nothing where JSON has no form for it."""
    row = taken.row if isinstance(taken.row, Mapping) else getattr(taken.row, "__dict__", None)
    if row is None:
        return None
    content = {"row": dict(row)} if taken.time is None else {"row": dict(row), "time": taken.time}
    try:
        return json.dumps(content, default=_plain, ensure_ascii=False).encode(errors="surrogatepass")
    except (TypeError, ValueError):  # keys of maps that are no text, or a value that holds itself
        return None


def _plain(value: Any) -> Any:
    return base64.b64encode(value).decode("ascii") if isinstance(value, bytes) else str(value)


def taken_from(batch: Batch) -> Callable[[int], TakenRow]:
    """The rows of a batch by their places: as they were, whatever a function did to the dicts made of them."""

    def taken(place: int) -> TakenRow:
        (row,) = shown_rows(batch.rows.slice(place, 1))
        return TakenRow(row, None if batch.times is None else batch.times[place].as_py())

    return taken
