"""Types of columns that mean the same on SQLite and PostgreSQL, and the names of constraints."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from typing import Any

from sqlalchemy import JSON, BigInteger, CheckConstraint, Column, DateTime, Dialect, Integer, MetaData, types
from sqlalchemy.dialects.postgresql import JSONB

SCHEMA = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)
"""Constraints are named by rule, so that migrations can name them on both databases."""
Id = BigInteger().with_variant(Integer, "sqlite")
"""SQLite counts up `INTEGER` keys only; PostgreSQL's `INTEGER` ends at two billion."""
Json = JSON().with_variant(JSONB, "postgresql")


class UtcTime(types.TypeDecorator[dt.datetime]):
    """An instant. SQLite returns times without a zone: they are UTC, as everything that is stored here."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: dt.datetime | None, dialect: Dialect) -> dt.datetime | None:
        """A time without a zone is a mistake of the caller, which no database would notice."""
        if value is None:
            return None
        if value.tzinfo is None:
            msg = f"a time without a zone cannot be stored: {value!r}"
            raise ValueError(msg)
        return value.astimezone(dt.UTC)

    def process_result_value(self, value: dt.datetime | None, dialect: Dialect) -> dt.datetime | None:
        """Always with a zone."""
        return (
            None
            if value is None
            else value.replace(tzinfo=dt.UTC)
            if value.tzinfo is None
            else value.astimezone(dt.UTC)
        )


def one_of(column: str, values: Iterable[str], name: str) -> CheckConstraint:
    """The column holds one of these words."""
    words = ", ".join(f"'{value}'" for value in values)
    return CheckConstraint(f"{column} IN ({words})", name=name)


def serial() -> Column[Any]:
    """A key that counts up."""
    return Column("id", Id, primary_key=True, autoincrement=True)
