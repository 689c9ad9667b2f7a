"""Savepoints that people disposed of: their files go, by whichever dispatcher comes first; doing it twice does no harm."""

from __future__ import annotations

import datetime as dt
from typing import Any

from sqlalchemy import Row, select

from millstream.control.act import Act, acting
from millstream.control.dispatcher.verifying import is_seen
from millstream.control.metadata.database import Metadata
from millstream.control.metadata.tables.access import operation
from millstream.control.operations import done, failed, handed_on
from millstream.errors import MillstreamError

_AGAIN = dt.timedelta(minutes=5)
"""Who took it and has not ended it by then has ended himself."""
_AT_ONCE = 20


def dispose_asked(metadata: Metadata) -> int:
    """Remove the files of savepoints that were disposed of; says of how many."""
    with acting(metadata) as act:
        taken = [each for each in _open(act) if each.status == "running" or handed_on(act, each.id)]
    for each in taken:
        # Outside of any transaction: files may be many.
        error = _disposed(each.result["wish"]["path"])
        with acting(metadata) as act:
            if error is None:
                done(act, each.id, path=each.result["wish"]["path"])
            else:
                failed(act, each.id, error)
    return len(taken)


def _open(act: Act) -> list[Row[Any]]:
    is_left = (operation.c.status == "running") & (operation.c.create_time <= act.now - _AGAIN)
    found = select(operation).where(operation.c.kind == "dispose", (operation.c.status == "pending") | is_left)
    waiting = act.connection.execute(found.order_by(operation.c.create_time).limit(_AT_ONCE))
    return [each for each in waiting if is_seen(each.result["wish"]["path"], act.now - each.create_time)]


def _disposed(path: str) -> dict[str, Any] | None:
    # Few services ever come here, and it brings what reads rows with it.
    from millstream.checkpoint.savepoint import dispose_savepoint

    try:
        dispose_savepoint(path)
    except MillstreamError as problem:
        return problem.fields()
    except OSError as problem:
        return {"code": "CTL-055", "message": f"the files of the savepoint could not be removed: {problem}"}
    return None
