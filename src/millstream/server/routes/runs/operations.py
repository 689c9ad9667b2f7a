"""Operations: what was asked for and takes a while."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query
from sqlalchemy import select

from millstream.control.dispatcher.stopping import withdraw
from millstream.control.metadata.tables.access import operation
from millstream.control.operations import operation_of
from millstream.server.asking import Asks, guarded
from millstream.server.idempotency import KEPT
from millstream.server.paging import Cursor, Keyset, Page, PageSize
from millstream.server.routes.shapes import OperationShown
from millstream.server.routes.showing import shown_operation

router = APIRouter(tags=["operations"])
_NEWEST_FIRST = Keyset(operation.c.create_time, operation.c.id, downwards=True)
OperationId = Annotated[str, Path(min_length=1, max_length=64)]


@router.get("/operations", **guarded("viewer"), summary="List operations")
def list_operations(
    asking: Asks,
    *,
    target: Annotated[str | None, Query(max_length=200, description="Of this run or other thing.")] = None,
    limit: PageSize = 100,
    cursor: Cursor = None,
) -> Page[OperationShown]:
    """Newest first; they are kept for seven days."""
    with asking.reading() as act:
        found = select(operation).where(operation.c.kind != KEPT)
        found = found if target is None else found.where(operation.c.target == target)
        return _NEWEST_FIRST.page(act, asking, found, shown_operation, limit=limit, cursor=cursor, scope=(target,))


@router.get("/operations/{operation}", **guarded("viewer"), summary="Get an operation")
def get_operation(operation: OperationId, asking: Asks) -> OperationShown:
    """`pending`, `running`, `done` or `failed`."""
    with asking.reading() as act:
        return shown_operation(operation_of(act, operation))


@router.delete("/operations/{operation}", status_code=204, **guarded("operator"), summary="Withdraw an operation")
def withdraw_operation(operation: OperationId, asking: Asks) -> None:
    """Take back what no node has begun; 409 for the rest, and for a cancel."""
    with asking.acting() as act:
        row = operation_of(act, operation)
        withdraw(act, row)
        asking.audit(act, "operation.withdraw", operation, before={"kind": row.kind, "target": row.target})
