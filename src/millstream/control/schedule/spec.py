"""A schedule as users write it: the values below `schedule:`, checked when they are saved."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from typing import Any, Literal

import msgspec

from millstream.control.schedule.concurrency import Concurrency, concurrency_named
from millstream.control.schedule.cron import CronTimes, cron_times
from millstream.control.schedule.wall_clock import zone_named
from millstream.errors import InvalidStep
from millstream.model.time import DurationLike, duration_ms

Misfire = Literal["skip", "one", "all"]
Outcome = Literal["success", "end", "failure"]
LONGEST_GRACE = dt.timedelta(days=366)
SHORTEST_POLL = dt.timedelta(seconds=1)
_HOOK_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


class UpstreamJob(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A job that is waited for, and how its run must have ended."""

    job: str
    when: Outcome = "success"


class EventSource(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What is waited for: a file, a call from outside, or the end of another job's run; exactly one of them."""

    file: str | None = None
    poll: str | int = "10s"
    webhook: str | None = None
    secret: str | None = None
    finished: str | None = None
    when: Outcome = "success"
    param: str | None = None
    """The run's parameter that gets the file's path, the call's body, or the id of the run that ended."""


class ScheduleSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """One schedule of one job."""

    type: Literal["cron", "manual", "event", "dependency"]
    cron: str | None = None
    time_zone: str = "UTC"
    misfire: Misfire = "one"
    grace: str | int = "1h"
    concurrency: str = "skip"
    enabled: bool | None = None
    """Without a word a new schedule is on, and one that is changed stays as it is."""
    params: dict[str, Any] = msgspec.field(default_factory=dict)
    event: EventSource | None = None
    upstream: tuple[UpstreamJob, ...] = ()
    need: Literal["all", "any"] = "all"
    match: Literal["fire_time", "window"] = "fire_time"
    window: str | int = "1d"

    @property
    def grace_time(self) -> dt.timedelta:
        """How late a missed fire may still run."""
        return _time(self.grace, "grace")

    @property
    def window_time(self) -> dt.timedelta:
        """How far apart the runs that are waited for may have ended."""
        return _time(self.window, "window")

    @property
    def limit(self) -> Concurrency:
        """How many runs there may be at once."""
        return concurrency_named(self.concurrency)

    @property
    def times(self) -> CronTimes | None:
        """When it fires by the clock, if it does."""
        return cron_times(self.cron, self.time_zone) if self.type == "cron" and self.cron is not None else None

    @property
    def waits_for(self) -> dict[str, Outcome]:
        """Jobs whose runs make this one run, with how these must end."""
        if self.event is not None and self.event.finished is not None:
            return {self.event.finished: self.event.when}
        return {each.job: each.when for each in self.upstream}

    @property
    def poll_time(self) -> dt.timedelta:
        """How often a folder is looked through."""
        return _time(self.event.poll if self.event is not None else 10, "event.poll")


def schedule_spec(document: Mapping[str, Any]) -> ScheduleSpec:
    """The values of a `schedule:` section, every one of them checked.

    Raises:
        InvalidStep: (CTL-201 to CTL-206) it names the field, what stands there and what fits.
    """
    try:
        spec = msgspec.convert(dict(document), ScheduleSpec)
    except msgspec.ValidationError as problem:
        msg = "schedule: a value is wrong, missing or unknown"
        hint = "correct the field that is named"
        known = ", ".join(ScheduleSpec.__struct_fields__)
        raise InvalidStep(msg, code="CTL-204", found=str(problem), known=known, hint=hint) from None
    zone_named(spec.time_zone)
    concurrency_named(spec.concurrency)
    _demand(dt.timedelta() <= spec.grace_time <= LONGEST_GRACE, "grace", spec.grace, "0s to 366d")
    _demand(len(str(spec.params)) <= 16_384, "params", "more than 16 KiB", "at most 16 KiB")
    _CHECKS[spec.type](spec)
    for field in _FIELDS_OF.keys() - {spec.type}:
        for name in _FIELDS_OF[field]:
            _demand(not getattr(spec, name), name, getattr(spec, name), f"nothing: only type {field} has it")
    return spec


def stored_spec(spec: ScheduleSpec) -> dict[str, Any]:
    """The document of a schedule, without what is as it is without saying so."""
    built: dict[str, Any] = msgspec.to_builtins(spec)
    return built


def _check_cron(spec: ScheduleSpec) -> None:
    _demand(spec.cron is not None, "cron", None, "a cron expression of five fields")
    cron_times(str(spec.cron), spec.time_zone)


def _check_manual(spec: ScheduleSpec) -> None:
    del spec  # nothing makes it fire, so there is nothing more to check


def _check_event(spec: ScheduleSpec) -> None:
    event = spec.event or EventSource()
    named = [name for name in ("file", "webhook", "finished") if getattr(event, name) is not None]
    _demand(len(named) == 1, "event", ", ".join(named) or None, "exactly one of file, webhook, finished")
    _demand((event.secret is not None) == (named == ["webhook"]), "event.secret", event.secret, "a secret of a webhook")
    if event.file is not None:
        _check_file(event.file)
        _demand(SHORTEST_POLL <= spec.poll_time <= LONGEST_GRACE, "event.poll", event.poll, "1s to 366d")
    if event.webhook is not None:
        is_name = _HOOK_NAME.fullmatch(event.webhook) is not None
        _demand(is_name, "event.webhook", event.webhook, "letters, digits, '.', '_', '-', at most 64")


def _check_file(pattern: str) -> None:
    parts = PurePosixPath(pattern).parts
    is_plain = pattern.startswith("/") and ".." not in parts and "**" not in pattern and "\0" not in pattern
    _demand(is_plain and len(pattern) <= 1024, "event.file", pattern, "an absolute path without '..' and '**'")


def _check_dependency(spec: ScheduleSpec) -> None:
    names = [each.job for each in spec.upstream]
    _demand(0 < len(names) <= 50, "upstream", names, "one to 50 jobs")
    _demand(len(set(names)) == len(names), "upstream", names, "every job once")
    _demand(dt.timedelta() < spec.window_time <= LONGEST_GRACE, "window", spec.window, "1s to 366d")


_CHECKS: Mapping[str, Callable[[ScheduleSpec], None]] = {
    "cron": _check_cron,
    "manual": _check_manual,
    "event": _check_event,
    "dependency": _check_dependency,
}
_FIELDS_OF = {"cron": ("cron",), "event": ("event",), "dependency": ("upstream",)}


def _time(value: DurationLike, field: str) -> dt.timedelta:
    return dt.timedelta(milliseconds=duration_ms(value, what=f"schedule: {field}"))


def _demand(is_met: bool, field: str, found: object, known: str) -> None:  # noqa: FBT001
    if not is_met:
        msg = f"schedule: {field} does not fit"
        raise InvalidStep(msg, code="CTL-205", found=repr(found), known=known, hint=f"correct {field}")
