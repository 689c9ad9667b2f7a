"""Topics of the stream, and events as listeners are told them."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from sqlalchemy import Row

from millstream.server.refusing import refuse
from millstream.server.routes.showing import shown_event

_TOPIC = re.compile(r"jobs|nodes|run:[0-9a-f]{1,64}")
_MOVES = ("moved", "submitted")


class Announced(NamedTuple):
    """One event of the stream."""

    id: int | None
    event: str
    data: dict[str, Any]
    run: str = ""
    topics: frozenset[str] = frozenset({"jobs"})
    """Who else is told than those who listen to its run."""

    def text(self) -> str:
        """As it is sent."""
        number = "" if self.id is None else f"id: {self.id}\n"
        return f"{number}event: {self.event}\ndata: {json.dumps(self.data, ensure_ascii=False)}\n\n"


def told_of(row: Row[Any]) -> Announced:
    """A row of the events of runs."""
    name = "run_state" if row.kind in _MOVES else row.kind
    return Announced(row.id, name, shown_event(row).model_dump(mode="json"), row.execution_id)


def topics_of(text: str) -> frozenset[str]:
    """Topics, checked.

    Raises:
        RequestRefused: (REST-006) one that is not known.
    """
    topics = frozenset(text.split(","))
    for topic in topics:
        if _TOPIC.fullmatch(topic) is None:
            refuse(
                "REST-006",
                "unknown topic",
                found=repr(topic[:80]),
                known="jobs, nodes, run:ID",
                hint="use known topics",
            )
    return topics


def concerns(topics: frozenset[str], told: Announced) -> bool:
    """Whether somebody with these topics is told; how far a run is, only who asked for that run."""
    if told.run and f"run:{told.run}" in topics:
        return True
    return bool(told.topics & topics)
