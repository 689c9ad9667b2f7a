"""Savepoints that people want verified: every file is read by whichever process of the service sees them first."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import Row, select

from millstream.checkpoint.savepoint_files import verify_savepoint
from millstream.control.act import Act, acting, reading
from millstream.control.metadata.database import Metadata
from millstream.control.metadata.tables.access import operation
from millstream.control.operations import done, failed, handed_on
from millstream.errors import MillstreamError
from millstream.inspect.savepoints import Restorer, judged
from millstream.jobmaster.compatibility import JobShape

VERIFY = "verify"
"""The kind of such operations."""
_AGAIN = dt.timedelta(hours=1)
"""Who took it and has not ended it by then has ended himself."""
_ELSEWHERE = dt.timedelta(seconds=15)
"""How long a process that does not see the files leaves them to others."""
_AT_ONCE = 5


def verify_asked(metadata: Metadata) -> int:
    """Verify the savepoints that are waiting; says how many were taken here."""
    with reading(metadata) as act:
        found = _open(act)
    taken = [each for each in found if _taken(metadata, each)]
    for each in taken:
        _verify(metadata, each)
    return len(taken)


def _open(act: Act) -> list[Row[Any]]:
    is_left = (operation.c.status == "running") & (operation.c.create_time <= act.now - _AGAIN)
    found = select(operation).where(operation.c.kind == VERIFY, (operation.c.status == "pending") | is_left)
    waiting = act.connection.execute(found.order_by(operation.c.create_time).limit(_AT_ONCE))
    return [each for each in waiting if is_seen(each.result["wish"]["path"], act.now - each.create_time)]


def is_seen(path: str, waited: dt.timedelta) -> bool:
    """Whether this process is the one to look at a savepoint: it sees it, or nobody has come who does."""
    return Path(path).is_dir() or waited >= _ELSEWHERE


def _taken(metadata: Metadata, asked: Row[Any]) -> bool:
    with acting(metadata) as act:
        return asked.status == "running" or handed_on(act, asked.id)


def _verify(metadata: Metadata, asked: Row[Any]) -> None:
    # Outside of any transaction: files may be many, and large.
    result, error = _verified(asked.result["wish"])
    with acting(metadata) as act:
        if error is None:
            done(act, asked.id, **result)
        else:
            failed(act, asked.id, error)


def _verified(wish: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any] | None]:
    try:
        verified = verify_savepoint(wish["path"])
        result: dict[str, Any] = {"path": wish["path"], "files": verified.files, "bytes": verified.bytes}
        if wish["shape"] is not None:
            shape = msgspec.convert(wish["shape"], JobShape)
            verdict = judged(
                verified.savepoint, Restorer(wish["job"], shape, wish["engine"], wish["allow_dropped_state"])
            )
            names = {name: wish[name] for name in ("job", "version", "parallelism")}
            result["compatibility"] = {**names, **verdict.facts()}
    except MillstreamError as problem:
        return {}, problem.fields()
    except OSError as problem:
        return {}, {"code": "CTL-058", "message": f"the files of the savepoint could not be read: {problem}"}
    return result, None
