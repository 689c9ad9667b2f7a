"""The audit, for those who have to know."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel
from sqlalchemy import Row, select

from millstream.control.metadata.tables.access import audit
from millstream.server.asking import Asks, guarded
from millstream.server.paging import Cursor, Keyset, Page, PageSize

router = APIRouter(tags=["access"])
_NEWEST_FIRST = Keyset(audit.c.id, downwards=True)


class AuditShown(BaseModel):
    """Something that was done, or refused."""

    id: int
    time: dt.datetime
    actor: str
    token_id: str | None
    action: str
    target: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    result: str
    detail: str | None
    request_id: str | None


@router.get("/audit", **guarded("admin"), summary="List what was done, and what was refused")
def list_audit(
    asking: Asks,
    *,
    actor: Annotated[str | None, Query(max_length=128, description="What one caller did.")] = None,
    target: Annotated[str | None, Query(max_length=200, description="What was done to one thing.")] = None,
    limit: PageSize = 100,
    cursor: Cursor = None,
) -> Page[AuditShown]:
    """Newest first."""
    with asking.reading() as act:
        found = select(audit)
        found = found if actor is None else found.where(audit.c.actor == actor)
        found = found if target is None else found.where(audit.c.target == target)
        scope = (actor, target)
        return _NEWEST_FIRST.page(act, asking, found, _shown, limit=limit, cursor=cursor, scope=scope)


def _shown(row: Row[Any]) -> AuditShown:
    return AuditShown(**{name: getattr(row, name) for name in AuditShown.model_fields})
