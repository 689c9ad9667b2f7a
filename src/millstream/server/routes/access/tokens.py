"""Tokens: made, listed without what they are, and revoked."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Row, select

from millstream.control.metadata.tables.access import api_token
from millstream.server.access.tokens import create_token, revoke_token
from millstream.server.asking import Asks, guarded
from millstream.server.paging import Cursor, Keyset, Page, PageSize
from millstream.server.refusing import refuse
from millstream.server.routes.shapes import Body

router = APIRouter(tags=["access"])
_NEWEST_FIRST = Keyset(api_token.c.created, api_token.c.id, downwards=True)


class TokenBody(Body):
    """Who is to get a token."""

    name: Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[^\x00-\x1f\x7f]+$")]
    role: Literal["viewer", "operator", "editor", "author", "admin"]
    days: Annotated[int, Field(ge=1, le=365)] = 90
    model_config = ConfigDict(json_schema_extra={"example": {"name": "ci", "role": "editor", "days": 30}})


class TokenShown(BaseModel):
    """A token, without what it is."""

    id: str
    name: str
    role: str
    created: dt.datetime
    expires: dt.datetime
    last_used: dt.datetime | None
    revoked: dt.datetime | None


class TokenMade(TokenShown):
    """A new token: the only answer that has it."""

    token: str


@router.get("/tokens", **guarded("admin"), summary="List tokens")
def list_tokens(asking: Asks, *, limit: PageSize = 100, cursor: Cursor = None) -> Page[TokenShown]:
    """Newest first."""
    with asking.reading() as act:
        return _NEWEST_FIRST.page(act, asking, select(api_token), _shown, limit=limit, cursor=cursor)


@router.post("/tokens", status_code=201, response_model=TokenMade, **guarded("admin"), summary="Make a token")
def make_token(body: TokenBody, asking: Asks) -> Response:
    """The token is shown here and never again, so an Idempotency-Key is refused: its answer would have to be kept."""
    if asking.key is not None:
        hint = "leave the header out; a token that was lost is revoked"
        refuse("REST-023", "a token is not made under an Idempotency-Key", hint=hint)
    with asking.acting() as act:
        made = create_token(act, body.name, body.role, dt.timedelta(days=body.days))
        asking.audit(act, "token.create", made.row.id, after={"name": body.name, "role": body.role, "days": body.days})
    shown = TokenMade(token=made.text, **_shown(made.row).model_dump())
    return JSONResponse(shown.model_dump(mode="json"), status_code=201)


@router.delete("/tokens/{token}", **guarded("admin"), summary="Revoke a token")
def delete_token(token: Annotated[str, Path(min_length=1, max_length=32)], asking: Asks) -> TokenShown:
    """It works no more, nor do its sessions; streams that it opened end within seconds."""
    with asking.acting() as act:
        row = revoke_token(act, token)
        asking.audit(act, "token.revoke", token, before={"name": row.name, "role": row.role})
        return _shown(row)


def _shown(row: Row[Any]) -> TokenShown:
    return TokenShown(
        id=row.id,
        name=row.name,
        role=row.role,
        created=row.created,
        expires=row.expires,
        last_used=row.last_used,
        revoked=row.revoked,
    )
