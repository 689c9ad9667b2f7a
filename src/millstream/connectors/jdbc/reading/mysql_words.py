"""The words of MySQL and MariaDB, and how each column is asked for."""

from __future__ import annotations

import datetime as dt
import decimal
from typing import Any

import pyarrow as pa

from millstream.connectors.jdbc.reading.forms import SourceColumn
from millstream.connectors.jdbc.reading.keys import KeyColumn, decoded
from millstream.connectors.jdbc.reading.statements import ALIAS, Statement

_EXPRESSIONS = {
    "plain": "{}",
    "text": "CAST({} AS CHAR)",
    "instant": "CONCAT(CAST({} AS CHAR), 'Z')",
    "double": "CAST({} AS DOUBLE)",
}


class MysqlDialect:
    """Texts are written as their bytes, which mean the same in every mode of the server."""

    compares_rows = False

    def quoted(self, name: str) -> str:
        """In backticks."""
        return "`" + name.replace("`", "``") + "`"

    def value(self, column: KeyColumn, value: Any) -> Statement:
        """A literal of the value's own type."""
        del column
        return Statement(literal(decoded(value)))

    def key_text(self, column: KeyColumn) -> str:
        """As it is."""
        return f"{ALIAS}.{self.quoted(column.name)}"

    def expression(self, name: str, form: str) -> str:
        """A cast, where one is needed."""
        return f"{_EXPRESSIONS[form].format(f'{ALIAS}.{self.quoted(name)}')} AS {self.quoted(name)}"


def literal(value: Any) -> str:
    """A value as it stands in statements."""
    match value:
        case bool() | int() | decimal.Decimal():
            return f"{value:f}" if isinstance(value, decimal.Decimal) else str(int(value))
        case float():
            return f"{value!r}e0" if "e" not in repr(value) else repr(value)
        case str():
            return f"_utf8mb4 X'{value.encode().hex()}'"
        case bytes():
            return f"X'{value.hex()}'"
        case dt.datetime():
            return f"TIMESTAMP'{value.isoformat(sep=' ', timespec='microseconds')}'"
        case dt.date():
            return f"DATE'{value.isoformat()}'"
    msg = f"no literal for {type(value).__name__}"
    raise TypeError(msg)


def mysql_form(column: SourceColumn, wanted: pa.DataType) -> str | None:
    """How a column is asked for to be read as a type."""
    found = column.read_as
    is_whole = found is not None and (pa.types.is_integer(found) or column.type == "bigint unsigned")
    is_number = is_whole or (found is not None and pa.types.is_decimal(found)) or column.type.startswith("decimal")
    if pa.types.is_string(wanted):
        return "plain" if found == wanted else "text"
    if pa.types.is_nested(wanted):
        return "text" if column.type == "text" else None
    if pa.types.is_boolean(wanted):
        return "plain" if column.type == "tinyint" else None
    if pa.types.is_integer(wanted):
        return "plain" if is_whole else None
    if pa.types.is_decimal(wanted):
        return "text" if is_number else None
    if pa.types.is_float64(wanted):
        return "double" if is_number or column.type in {"float", "double"} else None
    if found != wanted:
        return None
    if column.type == "timestamp":
        return "instant"
    # Dates of no calendar, such as 0000-00-00, end the driver: as text they are bad records.
    return "text" if pa.types.is_temporal(wanted) else "plain"
