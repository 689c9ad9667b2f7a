"""The audit: who did what, written with the act itself; what was refused, in a transaction of its own."""

from __future__ import annotations

import logging
from typing import Any

from sqlalchemy import insert

from millstream.control.act import Act, acting
from millstream.control.metadata.database import Metadata
from millstream.control.metadata.tables.access import audit
from millstream.errors import MillstreamError
from millstream.server.access.roles import Caller

NOBODY = "nobody"
_TARGET = 200
_DETAIL = 1000
_log = logging.getLogger(__name__)


def write_audit(
    act: Act,
    action: str,
    target: str,
    *,
    caller: Caller | None,
    request_id: str,
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
    result: str = "done",
    detail: str | None = None,
) -> None:
    """One row, in the transaction of the act."""
    values = {
        "time": act.now,
        "actor": NOBODY if caller is None else caller.name,
        "token_id": None if caller is None else caller.token_id,
        "action": action[:64],
        "target": target[:_TARGET],
        "before": before,
        "after": after,
        "result": result,
        "detail": detail,
        "request_id": request_id,
    }
    act.connection.execute(insert(audit).values(**values))


def write_refusal(
    metadata: Metadata, action: str, target: str, *, caller: Caller | None, request_id: str, problem: MillstreamError
) -> None:
    """A request that was refused; a database that is away must not hide the refusal from its asker."""
    detail = f"{problem.code}: {problem.message}"[:_DETAIL]
    try:
        with acting(metadata) as act:
            write_audit(act, action, target, caller=caller, request_id=request_id, result="refused", detail=detail)
    except Exception:
        _log.exception("the refusal of request %s could not be written", request_id)
