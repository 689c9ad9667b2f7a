"""The list of figures of a service, and with those of runs the whole list: files, pages and dashboards are made from it."""

from __future__ import annotations

from millstream.jobmaster.metrics.catalogue import RUN_METRICS
from millstream.jobmaster.metrics.metric import Metric, MetricKind

_JOB = ("job_name",)
_EVENTS = "events of runs, counted as they are written"


def _fleet(
    name: str, kind: MetricKind, text: str, labels: tuple[str, ...], *, unit: str = "", origin: str = _EVENTS
) -> Metric:
    return Metric(name=name, kind=kind, text=text, labels=labels, unit=unit, origin=origin)


_RUNS, _NODES, _FIRES = "rows of runs", "rows of nodes", "rows of fires"
FLEET_METRICS = (
    _fleet(
        "job_state",
        "gauge",
        "Whether a run of the job, or the last one if none is open, is in a state.",
        ("job_name", "state"),
        origin=_RUNS,
    ),
    _fleet("job_runs_total", "counter", "Runs that ended.", ("job_name", "result"), unit="runs"),
    _fleet("job_restarts_total", "counter", "Attempts behind the first one of a run.", _JOB, unit="restarts"),
    _fleet("job_run_duration_seconds", "histogram", "From the submission of a run to its end.", _JOB, unit="seconds"),
    _fleet(
        "job_last_run_duration_seconds",
        "gauge",
        "From the submission of the newest run that ended to its end.",
        _JOB,
        unit="seconds",
        origin=_RUNS,
    ),
    _fleet(
        "schedule_fires_total",
        "counter",
        "Decisions of schedules.",
        ("job_name", "result"),
        unit="fires",
        origin=_FIRES,
    ),
    _fleet(
        "schedule_delay_seconds",
        "histogram",
        "How late schedules decided to start a run.",
        _JOB,
        unit="seconds",
        origin=_FIRES,
    ),
    _fleet("runs_reaped_total", "counter", "Runs taken from nodes that fell silent.", _JOB, unit="runs"),
    _fleet("leases_lost_total", "counter", "Runs that a node had to let go.", _JOB, unit="leases"),
    _fleet("fenced_total", "counter", "Owners that were refused because there is a newer one.", _JOB, unit="refusals"),
    _fleet(
        "epoch_last_completed_timestamp_seconds",
        "gauge",
        "When an open run last published an epoch, since 1970.",
        _JOB,
        unit="seconds",
        origin="rows of checkpoints",
    ),
    _fleet(
        "epoch_interval_seconds",
        "gauge",
        "The mean time between the last epochs of an open run.",
        _JOB,
        unit="seconds",
        origin="rows of checkpoints",
    ),
    _fleet(
        "node_heartbeat_age_seconds",
        "gauge",
        "How long ago a node was last heard of.",
        ("node",),
        unit="seconds",
        origin=_NODES,
    ),
    _fleet("slots", "gauge", "Slots of a node that are used and free.", ("node", "state"), unit="slots", origin=_NODES),
)
"""The same on every server of a service: add them up over jobs, not over servers."""

_PROCESS = "this server's process"
SERVER_METRICS = (
    _fleet(
        "http_request_seconds",
        "histogram",
        "How long requests took.",
        ("method", "route", "status"),
        unit="seconds",
        origin=_PROCESS,
    ),
    _fleet("sse_clients", "gauge", "Open streams of events.", (), unit="clients", origin=_PROCESS),
    _fleet("build_info", "gauge", "The version that serves: 1.", ("version", "python"), origin=_PROCESS),
)
ALL_METRICS = (*RUN_METRICS, *FLEET_METRICS, *SERVER_METRICS)
