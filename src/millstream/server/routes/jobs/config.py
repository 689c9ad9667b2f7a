"""Settings of jobs: typed values, of which sensitive ones are encrypted and never shown."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path
from pydantic import BaseModel, ConfigDict, Field

from millstream.control.dispatcher.definitions import job_of, version_of
from millstream.control.secrets.config import ConfigEntry, check_param, delete_setting, set_setting, shown_settings
from millstream.server.asking import Asks, guarded, job_id_of
from millstream.server.routes.shapes import Body, Name

router = APIRouter(tags=["jobs"])
Key = Annotated[str, Path(min_length=1, max_length=128, description="The setting.")]


class ConfigBody(Body):
    """A setting: `value` is text, or as JSON has it."""

    value: Any
    type: Literal["STRING", "INT", "BOOLEAN", "JSON"] = "STRING"
    sensitive: bool = False
    model_config = ConfigDict(json_schema_extra={"example": {"value": 10, "type": "INT"}})


class ConfigShown(BaseModel):
    """A setting as people may see it."""

    key: str
    value: str
    type: str
    sensitive: bool


class ConfigList(BaseModel):
    """The settings of a job."""

    items: Annotated[list[ConfigShown], Field()]


def entry_of(key: str, body: ConfigBody) -> ConfigEntry:
    """The setting as it is kept."""
    return ConfigEntry(key, body.value, body.type, body.sensitive)


@router.get("/jobs/{name}/config", **guarded("viewer"), summary="List the settings of a job")
def list_config(name: Name, asking: Asks) -> ConfigList:
    """Values that are sensitive, or named like it, are masked."""
    with asking.reading() as act:
        found = shown_settings(act.connection, job_id_of(act, name))
    return ConfigList(
        items=[
            ConfigShown(
                key=each.config_key, value=each.config_value, type=each.config_type, sensitive=each.is_sensitive
            )
            for each in found
        ]
    )


@router.put("/jobs/{name}/config/{key}", status_code=204, **guarded("editor"), summary="Set a setting of a job")
def put_config(name: Name, key: Key, body: ConfigBody, asking: Asks) -> None:
    """It holds from the next run on."""
    keys = asking.service.keys
    assert keys is not None, "these routes are there only with keys"
    with asking.acting() as act:
        job, entry = job_of(act, name), entry_of(key, body)
        params = (version_of(act, job.id, job.version).plan or {}).get("params", [])
        check_param([each["name"] for each in params], entry)
        set_setting(act.connection, keys, job.id, entry)
        asking.audit(act, "config.set", f"{name}/{key}", after={"type": body.type, "sensitive": body.sensitive})


@router.delete("/jobs/{name}/config/{key}", status_code=204, **guarded("editor"), summary="Forget a setting of a job")
def remove_config(name: Name, key: Key, asking: Asks) -> None:
    """It holds from the next run on."""
    with asking.acting() as act:
        delete_setting(act.connection, job_id_of(act, name), key)
        asking.audit(act, "config.delete", f"{name}/{key}")
