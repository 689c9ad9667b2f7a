"""What an event or a fire adds to the counters of a service: decided from values, stored by `counting`."""

from __future__ import annotations

import bisect
import datetime as dt
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from millstream.api.functions.user_metrics import Spread
from millstream.control.lifecycle.states import FINAL, Status
from millstream.jobmaster.metrics.metric import Figure

RESULTS: Mapping[Status, str] = {
    Status.COMPLETED: "success",
    Status.DEAD: "failed",
    Status.CANCELLED: "cancelled",
    Status.SUSPENDED: "suspended",
}
FIRES = ("FIRED", "SKIPPED", "QUEUED")
REAPED = "CTL-051"
"""The code with which a run fails whose node fell silent."""
KINDS: Mapping[str, str] = {"lease_lost": "leases_lost_total", "fenced": "fenced_total"}
"""Events that nodes write of runs they had to let go, and the counters they belong to."""
BOUNDS: Mapping[str, tuple[float, ...]] = {
    "job_run_duration_seconds": (1, 5, 10, 30, 60, 300, 600, 1800, 3600, 10800, 43200, 86400),
    "schedule_delay_seconds": (0.5, 1, 2, 5, 10, 30, 60, 300, 3600),
}
_SUM, _COUNT = "sum", ""


class TallyKey(NamedTuple):
    """One stored number: a counter, or a bucket or the sum of a histogram."""

    name: str
    labels: str
    """As JSON with sorted names."""
    part: str = _COUNT
    """Of a histogram `sum`, or the number of a bucket."""


Tally = tuple[TallyKey, float]


def key_of(name: str, **labels: str) -> TallyKey:
    """The key of a counter."""
    return TallyKey(name, json.dumps(labels, sort_keys=True, ensure_ascii=False))


def of_event(event: Any) -> Iterator[Tally]:
    """What an event of a run counts for; `event` has the name of its job and the start of its run beside it."""
    job = event.job_name
    before, after = event.from_status, event.to_status
    if after in FINAL:
        yield key_of("job_runs_total", job_name=job, result=RESULTS[Status(after)]), 1
        yield from _observed("job_run_duration_seconds", job, event.time - event.start_time)
    if (before, after) == (Status.FAILED, Status.SCHEDULED):
        yield key_of("job_restarts_total", job_name=job), 1
    if after == Status.FAILED and (event.details or {}).get("code") == REAPED:
        yield key_of("runs_reaped_total", job_name=job), 1
    if event.kind in KINDS:
        yield key_of(KINDS[event.kind], job_name=job), 1


def of_fire(fire: Any) -> Iterator[Tally]:
    """What a decision of a schedule counts for."""
    yield key_of("schedule_fires_total", job_name=fire.job_name, result=fire.result), 1
    if fire.result == "FIRED":
        yield from _observed("schedule_delay_seconds", fire.job_name, fire.decided_at - fire.fire_time)


def _observed(name: str, job: str, took: dt.timedelta) -> Iterator[Tally]:
    seconds, key = max(0.0, took.total_seconds()), key_of(name, job_name=job)
    yield key._replace(part=str(bisect.bisect_left(BOUNDS[name], seconds))), 1
    yield key._replace(part=_SUM), seconds


def added(tallies: Iterable[Tally]) -> dict[TallyKey, float]:
    """Several tallies as one."""
    sums: dict[TallyKey, float] = {}
    for key, amount in tallies:
        sums[key] = sums.get(key, 0.0) + amount
    return sums


def beginnings(jobs: Iterable[str], scheduled: Iterable[str]) -> dict[TallyKey, float]:
    """Zero for what every job may come to count: a counter that appears with 1 has not grown, to Prometheus."""
    names = ("job_restarts_total", "runs_reaped_total", *KINDS.values())
    keys = [key_of(name, job_name=job) for job in jobs for name in names]
    keys += [key_of("job_runs_total", job_name=job, result=result) for job in jobs for result in RESULTS.values()]
    keys += [key_of("schedule_fires_total", job_name=job, result=result) for job in scheduled for result in FIRES]
    return dict.fromkeys(keys, 0.0)


def figures_of_tallies(sums: Mapping[TallyKey, float]) -> Iterator[Figure]:
    """Counters and histograms as samples."""
    spreads: dict[tuple[str, str], Spread] = {}
    for key, value in sums.items():
        if key.name not in BOUNDS:
            yield Figure(key.name, value, json.loads(key.labels))
            continue
        bounds = BOUNDS[key.name]
        spread = spreads.setdefault(key[:2], Spread(bounds=bounds, counts=[0] * (len(bounds) + 1)))
        if key.part == _SUM:
            spread.sum = value
        else:
            spread.counts[int(key.part)] = int(value)
    for (name, labels), spread in spreads.items():
        yield Figure(name, spread, json.loads(labels))
