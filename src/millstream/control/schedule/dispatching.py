"""How fires become runs: through the dispatcher, in the transaction of the fire."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, select

from millstream.control.act import Act
from millstream.control.dispatcher.starting import options_of, start_run
from millstream.control.dispatcher.stopping import Wish, run_of, stop
from millstream.control.metadata.tables.jobs import job_definition
from millstream.control.refusals import StateConflict
from millstream.control.schedule.firing import RunActs, Span

ACTOR = "schedule"


def dispatcher_acts(now: dt.datetime, actor: str = ACTOR) -> RunActs:
    """Start and cancel runs at that time, for whoever wanted it."""

    def start_one(
        connection: Connection,
        job_id: int,
        *,
        trigger_id: str,
        fire_time: dt.datetime,
        interval: Span | None,
        params: Mapping[str, Any],
        slot_no: int,
    ) -> str | None:
        job = connection.execute(select(job_definition).where(job_definition.c.id == job_id)).one()
        begin, end = interval if interval is not None else (None, None)
        stretch = {"interval_start": begin.isoformat(), "interval_end": end.isoformat()} if begin and end else {}
        options = options_of({"params": dict(params), "fire_time": fire_time.isoformat(), **stretch})
        run = start_run(Act(connection, now, actor), job, options, trigger=trigger_id, slot=slot_no)
        return None if run is None else str(run.execution_id)

    def cancel_one(connection: Connection, execution_id: str, *, cause: str) -> None:
        act = Act(connection, now, f"{actor} {cause}"[:128])
        # A run that ends meanwhile by itself need not be cancelled.
        with contextlib.suppress(StateConflict), connection.begin_nested():
            stop(act, run_of(act, execution_id), Wish("cancel"))

    return RunActs(start_one, cancel_one)
