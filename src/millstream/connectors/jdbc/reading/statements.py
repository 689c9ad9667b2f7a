"""The statements of a source, as text: ranges of a key, boundaries inside them, and the ends of them.

What differs between databases is asked of a `Dialect`. A range is `(low, high]`: rows behind one key up to another, so that
ranges side by side neither share a row nor leave one out, also where several rows have the same key.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from millstream.connectors.jdbc.reading.keys import Key, KeyColumn, KeyValues

ALIAS = "q"
"""What the query or table is called inside our statements."""


@dataclasses.dataclass(frozen=True, slots=True)
class Statement:
    """SQL with the values that are bound to its places, in order."""

    text: str
    values: tuple[Any, ...] = ()

    def __add__(self, other: Statement | str) -> Statement:
        if isinstance(other, str):
            return Statement(self.text + other, self.values)
        return Statement(self.text + other.text, self.values + other.values)


class Dialect(Protocol):
    """The words of a database."""

    compares_rows: bool
    """Whether `(a, b) > (x, y)` is served by an index on (a, b)."""

    def quoted(self, name: str) -> str:
        """An identifier in quotes, whatever is in it."""
        ...

    def value(self, column: KeyColumn, value: Any) -> Statement:
        """A key's value: a literal of a checked type, or a place for a bound value; never text that was not quoted."""
        ...

    def key_text(self, column: KeyColumn) -> str:
        """A key column in the form in which its values are fetched."""
        ...

    def expression(self, name: str, form: str) -> str:
        """A column in one of the forms in which it can be read."""
        ...


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class KeyStatements:
    """What is asked about one query or table with a key."""

    dialect: Dialect
    source: str
    """The query or table as it stands behind FROM, with the alias."""
    key: Key

    def last(self, after: KeyValues | None) -> Statement:
        """The highest key, behind another one."""
        where = self._where(self._after(after), self._present())
        return Statement(f"SELECT {self._keys()} FROM {self.source}") + where + f" {self._order(' DESC')} LIMIT 1"

    def boundary(self, low: KeyValues | None, high: KeyValues, step: int) -> Statement:
        """The key of the row that stands `step` rows behind `low`; no row where fewer are left."""
        where = self._range(low, high)
        tail = f" {self._order()} LIMIT 1 OFFSET {step - 1}"
        return Statement(f"SELECT {self._keys()} FROM {self.source}") + where + tail

    def count(self, low: KeyValues | None, high: KeyValues | None, *, most: int | None = None) -> Statement:
        """How many rows a range has, counted up to `most`."""
        inner = Statement(f"SELECT 1 FROM {self.source}") + self._range(low, high)
        limit = "" if most is None else f" LIMIT {most}"
        return Statement("SELECT count(*) FROM (") + inner + f"{limit}) AS counted"

    def rows(self, columns: Sequence[str], low: KeyValues | None, high: KeyValues | None) -> Statement:
        """The rows of a range in the order of the key."""
        return self.select(columns) + self._range(low, high) + f" {self._order()}"

    def null_rows(self, columns: Sequence[str]) -> Statement:
        """The rows that no range has: one of their key columns is null."""
        return self.select(columns) + self._where(self._absent())

    def has_null(self) -> Statement:
        """One row, if a key column of any row is null."""
        return Statement(f"SELECT 1 FROM {self.source}") + self._where(self._absent()) + " LIMIT 1"

    def select(self, columns: Sequence[str]) -> Statement:
        """All rows, as they come."""
        return Statement(f"SELECT {', '.join(columns)} FROM {self.source}")

    def _keys(self) -> str:
        return ", ".join(self.dialect.key_text(column) for column in self.key)

    def _order(self, direction: str = "") -> str:
        return "ORDER BY " + ", ".join(f"{self._name(column)}{direction}" for column in self.key)

    def _name(self, column: KeyColumn) -> str:
        collation = f" COLLATE {column.collation}" if column.collation else ""
        return f"{ALIAS}.{self.dialect.quoted(column.name)}{collation}"

    def _range(self, low: KeyValues | None, high: KeyValues | None) -> Statement:
        # A comparison of rows is decided by the first columns that differ: a null behind them would go unnoticed.
        return self._where(self._after(low), self._up_to(high), self._present())

    def _where(self, *conditions: Statement) -> Statement:
        given = [condition for condition in conditions if condition.text]
        return Statement(" WHERE ") + _joined(" AND ", given) if given else Statement("")

    def _after(self, values: KeyValues | None) -> Statement:
        return Statement("") if values is None else self._compared(values, ">", ">")

    def _up_to(self, values: KeyValues | None) -> Statement:
        return Statement("") if values is None else self._compared(values, "<", "<=")

    def _compared(self, values: KeyValues, strict: str, last: str) -> Statement:
        """The key against values: as a row, or column by column where no index serves a comparison of rows."""
        names = [self._name(column) for column in self.key]
        places = [self.dialect.value(column, value) for column, value in zip(self.key, values, strict=True)]
        if len(names) == 1:
            return Statement(f"{names[0]} {last} ") + places[0]
        if self.dialect.compares_rows:
            return Statement(f"({', '.join(names)}) {last} (") + _joined(", ", places) + ")"
        # The first column alone bounds what an index has to look at.
        bound = Statement(f"{names[0]} {strict}= ") + places[0]
        return bound + " AND (" + _nested(names, places, strict, last) + ")"

    def _present(self) -> Statement:
        return Statement(" AND ".join(f"{self._plain(column)} IS NOT NULL" for column in self.key if column.nullable))

    def _absent(self) -> Statement:
        nullable = [column for column in self.key if column.nullable]
        return Statement("(" + (" OR ".join(f"{self._plain(each)} IS NULL" for each in nullable) or "1 = 0") + ")")

    def _plain(self, column: KeyColumn) -> str:
        return f"{ALIAS}.{self.dialect.quoted(column.name)}"


def _nested(names: Sequence[str], places: Sequence[Statement], strict: str, last: str) -> Statement:
    if len(names) == 1:
        return Statement(f"{names[0]} {last} ") + places[0]
    beyond = Statement(f"{names[0]} {strict} ") + places[0]
    equal = Statement(f" OR ({names[0]} = ") + places[0] + " AND ("
    return beyond + equal + _nested(names[1:], places[1:], strict, last) + "))"


def _joined(separator: str, parts: Iterable[Statement]) -> Statement:
    first, *rest = parts
    for part in rest:
        first = first + separator + part
    return first
