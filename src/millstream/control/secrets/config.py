"""Settings of a job: rows with a key, a type and a value, of which sensitive ones are encrypted."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from typing import Any, NamedTuple

from sqlalchemy import Connection, delete, select

from millstream.control.metadata.tables.jobs import job_config
from millstream.control.metadata.upserts import upsert
from millstream.control.refusals import UnknownName
from millstream.control.secrets.cipher import decrypt, encrypt, from_text, of_job
from millstream.control.secrets.config_values import (
    ConfigType,
    config_type,
    is_hidden,
    shown_value,
    stored_text,
    typed_value,
)
from millstream.control.secrets.key_ring import KeyRing
from millstream.control.secrets.named import checked_name, checked_value
from millstream.errors import InvalidPlan, InvalidStep
from millstream.plan.job_config import SETTINGS, checked_setting
from millstream.redaction import SecretText

_COLUMNS = (
    job_config.c.config_key,
    job_config.c.config_value,
    job_config.c.config_type,
    job_config.c.is_sensitive,
    job_config.c.key_id,
)


class ConfigEntry(NamedTuple):
    """A setting as people write it, and as they may see it."""

    config_key: str
    config_value: Any
    config_type: ConfigType
    is_sensitive: bool


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class JobConfig:
    """What the settings of a job say for one run of it, without its secrets."""

    settings: dict[str, Any]
    """For `millstream.plan.job_config`."""
    params: dict[str, Any]
    """Values of parameters, which those that the run itself is given replace."""


def set_setting(connection: Connection, ring: KeyRing, job_id: int, given: ConfigEntry) -> None:
    """Keep a setting of a job, in the place of an earlier value. It holds from the next run on.

    Raises:
        MillstreamError: (CTL-304, 305, 310 to 313) what is wrong with the key, the type or the value.
    """
    kind, key = config_type(given.config_type), given.config_key
    if not isinstance(key, str) or "." not in key:
        checked_name(key)
    is_shown = not is_hidden(key, is_sensitive=given.is_sensitive)
    value = typed_value(key, kind, given.config_value, is_shown=is_shown)
    _check_key(key, value, is_sensitive=given.is_sensitive)
    text = checked_value(key, stored_text(kind, value), may_be_empty=not given.is_sensitive)
    values: dict[str, Any] = {"config_type": kind, "is_sensitive": given.is_sensitive}
    if given.is_sensitive:
        kept = encrypt(ring, text, place=of_job(job_id), name=key)
        values |= {"config_value": kept.text, "key_id": kept.key_id}
    else:
        values |= {"config_value": text, "key_id": None}
    upsert(connection, job_config, {"job_id": job_id, "config_key": key}, values)


def check_param(params: Collection[str], given: ConfigEntry) -> None:
    """Refuse the value of a parameter that the job does not have: every run of it would.

    Raises:
        InvalidPlan: (CTL-310) it has none of that name.
    """
    if "." in given.config_key or given.is_sensitive or given.config_key in params:
        return
    msg = f"the job has no parameter {given.config_key!r}"
    hint = "use a known one, or declare it in the job; a secret is set as sensitive"
    raise InvalidPlan(msg, code="CTL-310", known=[*params, *SETTINGS], hint=hint)


def shown_settings(connection: Connection, job_id: int) -> list[ConfigEntry]:
    """The settings of a job as people may see them; nothing is decrypted for them."""
    return [
        ConfigEntry(key, shown_value(key, kind, text, is_sensitive=is_sensitive), kind, is_sensitive)
        for key, text, kind, is_sensitive, _ in _rows(connection, job_id)
    ]


def read_config(connection: Connection, job_id: int) -> JobConfig:
    """The settings of a job for a run that begins."""
    config = JobConfig(settings={}, params={})
    for key, text, kind, is_sensitive, _ in _rows(connection, job_id):
        if not is_sensitive:
            (config.settings if key in SETTINGS else config.params)[key] = typed_value(key, kind, text)
    return config


def own_secrets(connection: Connection, ring: KeyRing, job_id: int, names: Collection[str]) -> dict[str, str]:
    """Those of the named secrets that the job has itself; for the driver's socket only.

    Raises:
        SecretRefused: (CTL-302, CTL-303) one cannot be read.
    """
    place = of_job(job_id)
    found: dict[str, str] = {}
    for key, text, _, is_sensitive, key_id in _rows(connection, job_id):
        if is_sensitive and key in names:
            kept = from_text(key_id, text, place=place, name=key)
            found[key] = SecretText(decrypt(ring, kept, place=place, name=key))
    return found


def delete_setting(connection: Connection, job_id: int, key: str) -> None:
    """Forget a setting.

    Raises:
        UnknownName: (CTL-315) the job has none of that name.
    """
    matching = delete(job_config).where(job_config.c.job_id == job_id, job_config.c.config_key == key)
    if connection.execute(matching.returning(job_config.c.id)).scalar() is None:
        msg = f"the job has no setting {key!r}"
        known = [setting.config_key for setting in shown_settings(connection, job_id)]
        raise UnknownName(msg, code="CTL-315", known=known, hint="use one of the known settings")


def _rows(connection: Connection, job_id: int) -> list[Any]:
    found = select(*_COLUMNS).where(job_config.c.job_id == job_id).order_by(job_config.c.config_key)
    return list(connection.execute(found))


def _check_key(key: str, value: Any, *, is_sensitive: bool) -> None:
    """A key is a setting that means something, or the name of a parameter or secret of the job: none is kept for nothing."""
    if is_sensitive and key in SETTINGS:
        msg = f"the setting {key!r} stands in plans and checkpoints, and cannot be sensitive"
        hint = "set is_sensitive to false; a secret has a name without dots, and jobs name it as ${secret:NAME}"
        raise InvalidStep(msg, code="CTL-313", hint=hint)
    if "." in key:
        checked_setting(key, value)
