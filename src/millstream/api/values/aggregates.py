"""Aggregates as the user names them: `ms.sum("amount")`."""

from __future__ import annotations

from millstream.graph.operations.aggregate import Aggregate


def count(of: str | None = None, *, where: str | None = None) -> Aggregate:
    """Rows, or non-null values of a column or expression.

    Every aggregate takes `where`, an expression: rows for which it is not true do not count.
    """
    return Aggregate(kind="count", of=of, where=where)


def count_distinct(of: str, *, where: str | None = None) -> Aggregate:
    """How many different non-null values there are, exactly: state holds every value of a key once."""
    return Aggregate(kind="count_distinct", of=of, where=where)


def sum(of: str, *, where: str | None = None) -> Aggregate:
    """Sum of a column or expression; null when there was no value."""
    return Aggregate(kind="sum", of=of, where=where)


def avg(of: str, *, where: str | None = None) -> Aggregate:
    """Mean of a column or expression."""
    return Aggregate(kind="avg", of=of, where=where)


def min(of: str, *, where: str | None = None) -> Aggregate:
    """Smallest value."""
    return Aggregate(kind="min", of=of, where=where)


def max(of: str, *, where: str | None = None) -> Aggregate:
    """Largest value."""
    return Aggregate(kind="max", of=of, where=where)


def first(of: str, *, where: str | None = None) -> Aggregate:
    """First non-null value in arrival order; a sliding window takes its slide-long bins in the order of time."""
    return Aggregate(kind="first", of=of, where=where)


def last(of: str, *, where: str | None = None) -> Aggregate:
    """Last non-null value in arrival order; a sliding window takes its slide-long bins in the order of time."""
    return Aggregate(kind="last", of=of, where=where)
