"""Writes what is made from the list of figures: their page in the documentation, and dashboards for Grafana.

`python scripts/metrics_pages.py write` writes the files, `check` fails if they are not what the list says.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from millstream.control.metrics.catalogue import ALL_METRICS, FLEET_METRICS, SERVER_METRICS
from millstream.jobmaster.metrics.catalogue import RUN_METRICS
from millstream.jobmaster.metrics.metric import Metric

ROOT = Path(__file__).parents[1]
UNITS = {"seconds": "s", "milliseconds": "dateTimeAsIso", "bytes": "bytes", "ratio": "percentunit"}
WIDTH, HEIGHT = 8, 7
"""Of a panel; a dashboard is 24 wide."""


class Section(NamedTuple):
    """Panels that stand together, and the figures in it, by how their names begin."""

    title: str
    begins: tuple[str, ...]


class Board(NamedTuple):
    """A dashboard."""

    name: str
    title: str
    variable: str
    """The label by which one is chosen."""
    chosen_from: str
    """The metric whose values of that label there are."""
    sections: tuple[Section, ...]


BOARDS = (
    Board(
        "fleet",
        "Millstream: fleet",
        "job_name",
        "millstream_job_state",
        (
            Section("Jobs", ("job_state", "job_runs", "job_restarts", "job_run_duration", "job_last_run")),
            Section("Schedules", ("schedule_",)),
            Section("Lost and taken over", ("runs_reaped", "leases_lost", "fenced_")),
            Section("Epochs", ("epoch_last_completed", "epoch_interval")),
        ),
    ),
    Board(
        "job",
        "Millstream: job",
        "job_name",
        "millstream_epochs_total",
        (
            Section("Rows", ("rows_", "step_rows", "latency", "failures")),
            Section("Epochs", ("epoch", "guarantee", "mode", "fencing_token")),
            Section("Where the time goes", ("vertex_", "step_seconds", "holder_")),
            Section("Event time", ("watermark", "partition_")),
            Section("Sources", ("lag_rows", "source_", "buffer_")),
            Section("Processes", ("process_", "jvm_", "rocksdb_", "shuffle_")),
            Section("Figures of the job's own functions", ("user_",)),
        ),
    ),
    Board(
        "node",
        "Millstream: nodes and servers",
        "instance",
        "millstream_build_info",
        (
            Section("Nodes", ("node_", "slots")),
            Section("Servers", ("http_", "sse_", "build_")),
        ),
    ),
)


# Dashboards.


def placed(board: Board) -> Iterator[tuple[str, list[Metric]]]:
    """The figures of each section; one stands in the first that it fits, of a board that is for its kind."""
    left = list(_of_board(board.name))
    for section in board.sections:
        taken = [metric for metric in left if metric.name.startswith(section.begins)]
        left = [metric for metric in left if metric not in taken]
        yield section.title, taken
    assert not left, f"no section of {board.name} takes {[metric.name for metric in left]}"


def _of_board(name: str) -> Iterable[Metric]:
    of_nodes = [metric for metric in FLEET_METRICS if "job_name" not in metric.labels]
    match name:
        case "job":
            return RUN_METRICS
        case "fleet":
            return [metric for metric in FLEET_METRICS if metric not in of_nodes]
        case _:
            return [*of_nodes, *SERVER_METRICS]


def expression(metric: Metric, board: Board) -> str:
    """What a panel shows of a figure."""
    # What servers know of jobs and nodes is the same on all of them: only what is their own is asked of one.
    own = board.variable == "job_name" or metric in SERVER_METRICS
    chosen = f'{{{board.variable}=~"${board.variable}"}}' if own else ""
    labels = [name for name in metric.labels if name != "job_name"]
    by = ["job_name", *labels] if board.variable == "job_name" else labels
    told_alike = metric in FLEET_METRICS
    match metric.kind:
        case "histogram":
            rate = f"rate({metric.shown}_bucket{chosen}[$__rate_interval])"
            once = f"max by ({', '.join([*by, 'le'])}) ({rate})" if told_alike else rate
            return f"histogram_quantile(0.95, sum by ({', '.join([*by, 'le'])}) ({once}))"
        case "counter":
            return f"{'max' if told_alike else 'sum'} by ({', '.join(by)}) (rate({metric.shown}{chosen}[$__rate_interval]))"
        case _:
            active = " > 0" if metric.name == "job_state" else ""
            return (
                f"max by ({', '.join(by)}) ({metric.shown}{chosen}){active}" if by else f"sum({metric.shown}{chosen})"
            )


def dashboard(board: Board) -> dict[str, Any]:
    """A dashboard as Grafana reads it."""
    panels: list[dict[str, Any]] = []
    top = 0
    for title, metrics in placed(board):
        panels.append({"id": len(panels) + 1, "type": "row", "title": title, "gridPos": _place(0, top, 24, 1)})
        top += 1
        for number, metric in enumerate(metrics):
            place = _place(WIDTH * (number % 3), top + HEIGHT * (number // 3), WIDTH, HEIGHT)
            panels.append(_panel(len(panels) + 1, metric, board, place))
        top += HEIGHT * -(-len(metrics) // 3)
    return {
        "uid": f"millstream-{board.name}",
        "title": board.title,
        "tags": ["millstream"],
        "schemaVersion": 39,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [_datasource(), _variable(board)]},
        "panels": panels,
    }


def _place(left: int, top: int, width: int, height: int) -> dict[str, int]:
    return {"x": left, "y": top, "w": width, "h": height}


def _panel(number: int, metric: Metric, board: Board, place: dict[str, int]) -> dict[str, Any]:
    labels = [name for name in metric.labels if name != "job_name"]
    named = ["job_name", *labels] if board.variable == "job_name" else labels
    unit = UNITS.get(metric.unit, "short")
    if metric.name.endswith("timestamp_seconds"):
        unit = "dateTimeFromNow"
    return {
        "id": number,
        "type": "timeseries",
        "title": metric.name + (" per second" if metric.kind == "counter" else ""),
        "description": metric.text + (" 95 % of them." if metric.kind == "histogram" else ""),
        "gridPos": place,
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "fieldConfig": {"defaults": {"unit": unit}, "overrides": []},
        "targets": [
            {
                "refId": "A",
                "expr": expression(metric, board),
                "legendFormat": " ".join(f"{{{{{name}}}}}" for name in named) or metric.name,
            }
        ],
    }


def _datasource() -> dict[str, Any]:
    return {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "data source"}


def _variable(board: Board) -> dict[str, Any]:
    return {
        "name": board.variable,
        "type": "query",
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "query": f"label_values({board.chosen_from}, {board.variable})",
        "refresh": 2,
        "includeAll": True,
        "multi": True,
        "current": {"text": "All", "value": "$__all"},
    }


# The page.

INTRODUCTION = """# Figures

<!-- Written by scripts/metrics_pages.py from the list in the code: change it there. -->

What runs and services tell Prometheus. Names begin with `millstream_`, durations are in seconds unless the name says
otherwise, sizes in bytes, and counters end in `_total`. The job is in the label `job_name`: Prometheus has a label
`job` of its own.

[Alert rules](../guides/alerts.md) and rules that record figures under shorter names are in `deploy/prometheus/`,
dashboards for Grafana in `deploy/grafana/`. Both name only what is listed here.
"""
PARTS = (
    (
        "Runs",
        RUN_METRICS,
        """`millstream run JOB --metrics FILE` keeps them in a file. A server tells those of the runs of its own node at
`/metrics`, and those of another node at `/v1/nodes/NODE/metrics`, with the label `slot`, which tells runs of one job at
one time apart (0 where there is one); `/v1/runs/RUN/metrics` tells those of one run as JSON. What a run does not know is
left out. A counter begins again at zero when another process takes the run over, as Prometheus expects of a restart.

- `latency_seconds` is the time of publication less the event time of the newest rows of an epoch, of the partition that
  is furthest behind; where rows have no event time, less the time at which the epoch admitted them. It counts rows.
- Shares of a vertex (`vertex_*_ratio`) are of the time between two epochs, and fall while no new epoch comes.
- `process_*_ratio` are of the processors and the memory that the process group, or else the machine, may use; memory
  that processes share counts for each.
""",
    ),
    (
        "Jobs and nodes",
        FLEET_METRICS,
        """Read from the service's database, so that every server tells the same: take the largest over servers, not the
sum. Counters are kept in the database: they do not fall when old rows are removed or a server starts again. They count
from the first time that somebody reads them.

The `result` of a run is `success`, `failed` (no attempt is left), `cancelled` or `suspended`; that of a fire `FIRED`,
`SKIPPED` or `QUEUED`.
""",
    ),
    ("Servers", SERVER_METRICS, "Of the process that answers.\n"),
)


def page() -> str:
    """The page of the documentation."""
    lines = [INTRODUCTION]
    for title, metrics, text in PARTS:
        lines += [f"## {title}", "", text, "| figure | kind | labels | what it says | from |", "|---|---|---|---|---|"]
        lines += [_row(metric) for metric in metrics]
        lines.append("")
    return "\n".join(lines)


def _row(metric: Metric) -> str:
    labels = ", ".join(f"`{name}`" for name in metric.labels if name != "job_name")
    return f"| `{metric.shown}` | {metric.kind} | {labels} | {metric.text} | {metric.origin} |"


def files() -> dict[Path, str]:
    """All files, by path."""
    boards = {ROOT / "deploy" / "grafana" / f"{board.name}.json": dashboard(board) for board in BOARDS}
    shown = {path: json.dumps(content, indent=2) + "\n" for path, content in boards.items()}
    return {ROOT / "docs" / "reference" / "metrics.md": page(), **shown}


def main() -> None:
    """Do what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["write", "check"])
    action = parser.parse_args().action
    old = [path for path, text in files().items() if not path.exists() or path.read_text() != text]
    if action == "write":
        for path in old:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(files()[path])
    sys.stdout.write(f"{len(old)} of {len(files())} files were not as the list of {len(ALL_METRICS)} figures says\n")
    sys.exit(1 if old and action == "check" else 0)


if __name__ == "__main__":
    main()
