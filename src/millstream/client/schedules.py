"""Calls about schedules, what they decided, and backfills."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from millstream.client.pages import plain
from millstream.client.transport import Transport, decoded, escaped


class ScheduleInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule, and when it fires next."""

    job: str
    schedule: dict[str, Any]
    enabled: bool
    revision: int
    revised_at: dt.datetime
    next_trigger_time: dt.datetime | None
    next: list[dt.datetime]


class FireInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One decision of a schedule."""

    fire_time: dt.datetime
    cause: str
    result: str
    reason: str | None = None
    run: str | None = None


class IntervalInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of time that one run works for."""

    start: dt.datetime
    end: dt.datetime


class BackfillBegun(msgspec.Struct, frozen=True, kw_only=True):
    """What a backfill runs; without `id` it has not begun."""

    intervals: list[IntervalInfo]
    id: int | None = None


class BackfillInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A backfill, and how far it is."""

    id: int
    start: dt.datetime
    to: dt.datetime
    order: str
    max_parallel: int
    status: str
    create_time: dt.datetime
    actor: str
    end_time: dt.datetime | None = None


class _Times(msgspec.Struct):
    items: list[dt.datetime]


class _Fires(msgspec.Struct):
    items: list[FireInfo]


class _Backfills(msgspec.Struct):
    items: list[BackfillInfo]


class ScheduleCalls:
    """`client.schedules`: each job has one at most."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def get(self, job: str) -> ScheduleInfo:
        """The schedule of a job."""
        return self._transport.get(_path(job), ScheduleInfo)

    def set(self, job: str, schedule: Mapping[str, Any], *, seen: int | None = None) -> ScheduleInfo:
        """Save one: the values below `schedule:`; `seen` is the revision that it changes."""
        headers = {} if seen is None else {"If-Match": f'"{seen}"'}
        return decoded(self._transport.send("PUT", _path(job), body=schedule, headers=headers), ScheduleInfo)

    def delete(self, job: str) -> None:
        """Take it away."""
        self._transport.send("DELETE", _path(job))

    def pause(self, job: str) -> ScheduleInfo:
        """Decide nothing more until it is resumed."""
        return self._transport.post(f"{_path(job)}/pause", None, ScheduleInfo)

    def resume(self, job: str) -> ScheduleInfo:
        """Go on from now."""
        return self._transport.post(f"{_path(job)}/resume", None, ScheduleInfo)

    def fire(self, job: str, *, key: str | None = None) -> FireInfo:
        """Fire by hand; the same key again gives the same run."""
        return self._transport.post(f"{_path(job)}/fire", plain(key=key), FireInfo)

    def next(self, job: str, *, count: int = 5) -> Sequence[dt.datetime]:
        """When it fires next."""
        return self._transport.get(f"{_path(job)}/next", _Times, {"count": count}).items

    def fires(self, job: str, *, limit: int = 100) -> Sequence[FireInfo]:
        """What it decided, newest first."""
        return self._transport.get(f"{_path(job)}/fires", _Fires, {"limit": limit}).items

    def backfill(
        self,
        job: str,
        start: dt.datetime,
        to: dt.datetime,
        *,
        order: Literal["oldest", "newest"] = "oldest",
        max_parallel: int = 1,
        dry_run: bool = False,
    ) -> BackfillBegun:
        """Run a job for a stretch of the past, or show what would run."""
        times = {"from": start.isoformat(), "to": to.isoformat()}
        body = {**times, "order": order, "max_parallel": max_parallel, "dry_run": dry_run}
        return self._transport.post(f"/jobs/{escaped(job)}/backfills", body, BackfillBegun)

    def backfills(self, job: str) -> Sequence[BackfillInfo]:
        """The backfills of a job, newest first."""
        return self._transport.get(f"/jobs/{escaped(job)}/backfills", _Backfills).items

    def cancel_backfill(self, job: str, backfill: int) -> None:
        """Start no more runs of it."""
        self._transport.send("DELETE", f"/jobs/{escaped(job)}/backfills/{backfill}")


def _path(job: str) -> str:
    return f"/jobs/{escaped(job)}/schedule"
