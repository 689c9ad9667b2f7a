"""ETags of jobs: who changes a job says which one was seen."""

from __future__ import annotations

import re
from typing import Annotated, Any

from fastapi import Header
from sqlalchemy import Row

from millstream.control.refusals import StaleVersion
from millstream.server.refusing import refuse

IfMatch = Annotated[str | None, Header(max_length=200, description="The job's `ETag` as it was seen.")]
IfNoneMatch = Annotated[str | None, Header(max_length=200, description="The job's `ETag` as it was seen.")]
_TAG = re.compile(r'(?:W/)?"(\d{1,9})\.(\d{1,17})\.[0-9A-Za-z.-]{0,60}"')


def etag_of(job: Row[Any], newest: Row[Any] | None) -> str:
    """Version and time of the last change, by which changes are judged, and what else is shown."""
    changed = round(job.update_time.timestamp() * 1_000_000)
    run = "-" if newest is None else f"{newest.id}.{newest.row_version}"
    return f'"{job.version}.{changed}.{run}"'


def expect(job: Row[Any], if_match: str | None, *, required: bool = False) -> None:
    """Refuse a change of something else than what was seen.

    Raises:
        RequestRefused: (REST-020) nothing was said about what was seen.
        StaleVersion: (CTL-022) the job was changed since.
    """
    if if_match is None:
        if required:
            hint = "read the job, and send its ETag as If-Match"
            refuse("REST-020", "a change needs If-Match", hint=hint)
        return
    if if_match.strip() == "*":
        return
    found = _TAG.fullmatch(if_match.strip())
    now = (str(job.version), str(round(job.update_time.timestamp() * 1_000_000)))
    if found is None or found.groups() != now:
        msg = "the job was changed in the meantime"
        hint = "read it again, and make the change to what it is now"
        raise StaleVersion(
            msg, code="CTL-022", found=f"If-Match {if_match[:80]}", known=f"version {job.version}", hint=hint
        )
