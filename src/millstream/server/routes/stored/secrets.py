"""Secrets of the service: written, listed by name, and never read back."""

from __future__ import annotations

import datetime as dt
from typing import Annotated

from fastapi import APIRouter, Path
from pydantic import BaseModel, ConfigDict, Field

from millstream.control.secrets.named import delete_secret, secret_names, set_secret
from millstream.server.asking import Asks, guarded
from millstream.server.routes.shapes import Body

router = APIRouter(tags=["secrets"])
SecretName = Annotated[str, Path(min_length=1, max_length=128, description="As `${secret:NAME}` names it.")]


class SecretBody(Body):
    """The value of a secret."""

    value: Annotated[str, Field(min_length=1)]
    model_config = ConfigDict(json_schema_extra={"example": {"value": "correct horse battery staple"}})


class SecretShown(BaseModel):
    """A secret without its value."""

    name: str
    key_id: str
    create_time: dt.datetime
    update_time: dt.datetime


class SecretList(BaseModel):
    """All secrets."""

    items: list[SecretShown]


@router.get("/secrets", **guarded("editor"), summary="List secrets by name")
def list_secrets(asking: Asks) -> SecretList:
    """Names and times, without values."""
    with asking.reading() as act:
        return SecretList(items=[SecretShown(**each._asdict()) for each in secret_names(act.connection)])


@router.put("/secrets/{name}", status_code=204, **guarded("editor"), summary="Set a secret")
def put_secret(name: SecretName, body: SecretBody, asking: Asks) -> None:
    """Keep a value, encrypted; nobody can read it back."""
    keys = asking.service.keys
    assert keys is not None, "these routes are there only with keys"
    with asking.acting() as act:
        set_secret(act.connection, keys, name, body.value, now=act.now)
        asking.audit(act, "secret.set", name)


@router.delete("/secrets/{name}", status_code=204, **guarded("editor"), summary="Forget a secret")
def remove_secret(name: SecretName, asking: Asks) -> None:
    """Runs that have it keep it until they end."""
    with asking.acting() as act:
        delete_secret(act.connection, name)
        asking.audit(act, "secret.delete", name)
