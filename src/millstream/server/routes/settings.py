"""The settings of the service, for those who run it."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel

from millstream.server.asking import Asks, guarded
from millstream.server.settings import Setting, settings_of_limits

router = APIRouter(tags=["service"])


class SettingShown(BaseModel):
    """A setting as it is in force in the server that answers."""

    name: str
    value: Any
    source: str
    """`command line`, `environment` or `default`; `key file` for what is found there."""


class SettingsShown(BaseModel):
    """All settings."""

    items: list[SettingShown]


@router.get("/settings", **guarded("admin"), summary="List the settings of the service")
def list_settings(asking: Asks) -> SettingsShown:
    """Those of the server that answers, masked, each with where it comes from."""
    service = asking.service
    found = [*service.settings, *settings_of_limits(service.limits)]
    if service.keys is not None and service.keys.path.exists():
        found.append(Setting("secrets.key_ids", service.keys.ids, "key file"))
    return SettingsShown(items=[SettingShown(**each._asdict()) for each in found])
