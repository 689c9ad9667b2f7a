"""The statement that moves waiting rows into a table by their keys."""

from __future__ import annotations

from millstream.connectors.jdbc.database import quoted
from millstream.connectors.jdbc.layout import Layout


def merge_statement(layout: Layout, rows: str, last_first: str, where: str = "") -> str:
    """Insert rows, or replace those with the same keys; of several with the same keys the last one counts.

    Args:
        layout: the target and its keys.
        rows: what follows FROM; the rows have the alias `s`.
        last_first: the order that puts the row to keep first.
        where: which of the rows to take.
    """
    keys = [quoted(key) for key in layout.keys]
    inner = ", ".join(f"s.{quoted(name)}" for name in layout.names)
    by_keys = ", ".join(f"s.{key}" for key in keys)
    others = [quoted(name) for name in layout.names if name not in layout.keys]
    replace = ", ".join(f"{name} = excluded.{name}" for name in others)
    return (
        f"INSERT INTO {layout.target} ({layout.columns}) SELECT {layout.columns} FROM ("
        f"SELECT {inner}, row_number() OVER (PARTITION BY {by_keys} ORDER BY {last_first}) AS ms_rank "
        f"FROM {rows} {where}) ranked WHERE ms_rank = 1 "
        f"ON CONFLICT ({', '.join(keys)}) DO {f'UPDATE SET {replace}' if replace else 'NOTHING'}"
    )
