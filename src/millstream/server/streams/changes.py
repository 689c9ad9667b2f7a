"""What changed in jobs, operations and nodes: their rows compared with what they were a second ago.

These events have no number: whoever was away finds how things are in the snapshot, or by asking.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from sqlalchemy import or_, select

from millstream.control.act import Act, reading
from millstream.control.metadata.tables.access import operation
from millstream.control.metadata.tables.jobs import job_definition
from millstream.control.nodes.claims import TERM
from millstream.control.nodes.registration import nodes
from millstream.server.idempotency import KEPT
from millstream.server.routes.nodes import NodeShown
from millstream.server.routes.showing import shown_operation
from millstream.server.service import Service
from millstream.server.streams.topics import Announced

_ENDED_FOR = dt.timedelta(minutes=1)
"""How long an operation that has ended is still looked at."""
_FLEET = frozenset({"nodes"})
_ALL = frozenset({"jobs", "nodes"})
Rows = Mapping[str, dict[str, Any]]


class Changes:
    """How things were at the last look; looks follow each other."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._seen: dict[str, Rows] = {}

    def look(self, topics: frozenset[str]) -> list[Announced]:
        """What is other than it was; what nobody listens to is not looked at, and what is looked at first has not changed."""
        wanted = {name: part for name, part in _PARTS.items() if _is_wanted(name, topics)}
        if not wanted:
            self._seen = {}
            return []
        with reading(self._service.metadata) as act:
            now = {name: read(act) for name, (read, _) in wanted.items()}
        told = [
            each
            for name, (_, tell) in wanted.items()
            if name in self._seen
            for each in _differences(self._seen[name], now[name], tell)
        ]
        self._seen = now
        return told


def _is_wanted(name: str, topics: frozenset[str]) -> bool:
    has_run = any(topic.startswith("run:") for topic in topics)
    return {"job": "jobs" in topics, "operation": "jobs" in topics or has_run, "node": "nodes" in topics}[name]


Tell = Callable[[dict[str, Any] | None, dict[str, Any]], Iterator[Announced]]


def _differences(before: Rows, now: Rows, tell: Tell) -> Iterator[Announced]:
    for key, row in now.items():
        if before.get(key) != row:
            yield from tell(before.get(key), row)


def _jobs(act: Act) -> Rows:
    names = ("job_name", "version", "enabled", "desired", "deleted_time")
    rows = act.connection.execute(select(*(job_definition.c[name] for name in names)))
    return {
        row.job_name: {
            "job": row.job_name,
            "version": row.version,
            "enabled": row.enabled,
            "desired": row.desired,
            "is_deleted": row.deleted_time is not None,
        }
        for row in rows
    }


def _job(before: dict[str, Any] | None, row: dict[str, Any]) -> Iterator[Announced]:
    changed = ["created"] if before is None else [name for name, value in row.items() if before[name] != value]
    yield Announced(None, "job", {**row, "changed": changed})


def _operations(act: Act) -> Rows:
    is_open, is_recent = operation.c.status.in_(("pending", "running")), operation.c.end_time > act.now - _ENDED_FOR
    rows = act.connection.execute(select(operation).where(operation.c.kind != KEPT, or_(is_open, is_recent)))
    return {row.id: shown_operation(row).model_dump(mode="json") for row in rows}


def _operation(_before: dict[str, Any] | None, row: dict[str, Any]) -> Iterator[Announced]:
    yield Announced(None, "operation", row, row["target"])


def _nodes(act: Act) -> Rows:
    """Without what moves all the time; a node that missed its term is silent."""
    return {
        each["id"]: {
            **{name: each[name] for name in ("id", "state", "slots", "labels", "version", "address")},
            "runs": sorted(each["runs"]),
            "started_at": NodeShown.model_validate(each).model_dump(mode="json")["started_at"],
            "is_silent": each["state"] != "GONE" and each["age"] > TERM.total_seconds(),
        }
        for each in nodes(act)
    }


def _node(before: dict[str, Any] | None, row: dict[str, Any]) -> Iterator[Announced]:
    yield Announced(None, "node", row, topics=_FLEET)
    if row["is_silent"] != (before is not None and before["is_silent"]):
        text = "has not been heard of for its whole term" if row["is_silent"] else "is heard of again"
        about = {
            "about": "node",
            "name": row["id"],
            "is_firing": row["is_silent"],
            "message": f"node {row['id']} {text}",
        }
        yield Announced(None, "alert", about, topics=_ALL)


_PARTS: Mapping[str, tuple[Callable[[Act], Rows], Tell]] = {
    "job": (_jobs, _job),
    "operation": (_operations, _operation),
    "node": (_nodes, _node),
}
