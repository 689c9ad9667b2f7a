"""The statements that move waiting rows into a table by their keys."""

from __future__ import annotations

from millstream.connectors.jdbc.database import quoted
from millstream.connectors.jdbc.layout import Layout
from millstream.model.change import ChangeKind

LAST_FIRST = "length(p.task) DESC, p.task DESC, s.ms_seq DESC"
"""Of the rows of an epoch the last one first: tasks are numbered within their level, in the order of what they read."""
_GOES = f"= '{ChangeKind.DELETE.value}'"
_COMES = f"<> '{ChangeKind.DELETE.value}'"


def merge_statements(layout: Layout, rows: str, last_first: str, where: str = "") -> list[str]:
    """Insert rows, or replace those with the same keys; of several with the same keys the last one counts.

    Where a column says which rows delete, those with the keys of such rows go first, so that what comes finds their place free.

    Args:
        layout: the target and its keys.
        rows: what follows FROM; the rows have the alias `s`.
        last_first: the order that puts the row to keep first.
        where: which of the rows to take.
    """
    last = _last_rows(layout, rows, last_first, where)
    if layout.op is None:
        return [_merge(layout, f"{last} WHERE ms_rank = 1")]
    keys = ", ".join(map(quoted, layout.keys))
    of_last = f"{last} WHERE ms_rank = 1 AND {quoted(layout.op)}"
    return [
        f"DELETE FROM {layout.target} WHERE ({keys}) IN (SELECT {keys} FROM {of_last} {_GOES})",
        _merge(layout, f"{of_last} {_COMES}"),
    ]


def _last_rows(layout: Layout, rows: str, last_first: str, where: str) -> str:
    names = (*layout.names, *([] if layout.op is None else [layout.op]))
    inner = ", ".join(f"s.{quoted(name)}" for name in names)
    by_keys = ", ".join(f"s.{quoted(key)}" for key in layout.keys)
    return (
        f"(SELECT {inner}, row_number() OVER (PARTITION BY {by_keys} ORDER BY {last_first}) AS ms_rank "
        f"FROM {rows} {where}) ranked"
    )


def _merge(layout: Layout, rows: str) -> str:
    others = [quoted(name) for name in layout.names if name not in layout.keys]
    replace = ", ".join(f"{name} = excluded.{name}" for name in others)
    keys = ", ".join(map(quoted, layout.keys))
    return (
        f"INSERT INTO {layout.target} ({layout.columns}) SELECT {layout.columns} FROM {rows} "
        f"ON CONFLICT ({keys}) DO {f'UPDATE SET {replace}' if replace else 'NOTHING'}"
    )
