"""What the service forgets, and when: in small transactions, so that nobody waits for it."""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Callable, Iterator
from typing import Any

from sqlalchemy import Connection, Select, String, Table, cast, delete, func, literal, select, tuple_, update

from millstream.control.lifecycle.states import FINAL, OPEN
from millstream.control.metadata.database import Metadata
from millstream.control.metadata.tables.access import audit, operation
from millstream.control.metadata.tables.nodes import node
from millstream.control.metadata.tables.runs import checkpoint, dead_letter, execution, run_event, savepoint
from millstream.control.metadata.tables.schedules import schedule_fire
from millstream.errors import ExternalFailure

EVENTS = dt.timedelta(days=30)
OPERATIONS = dt.timedelta(days=7)
FIRES = AUDIT = dt.timedelta(days=400)
RUNS = dt.timedelta(days=180)
KEPT_RUNS = 100
"""Of each job, however old."""
KEPT_CHECKPOINTS = 10
"""Of each slot of a job, and of those that failed: rows of the index. Manifests are pruned by the job's own retention."""
KEPT_LETTERS = 1000
"""Of each step of a run: rows of the index. The letters themselves are where the job's sink put them."""
NODES = dt.timedelta(days=30)
BATCH = 500
_BATCHES = 40
"""Of one kind in one round: the rest follows in the next."""
_log = logging.getLogger(__name__)
Step = Callable[[Connection, dt.datetime], int]


class Retention:
    """Deletes what is too old, a batch at a time."""

    def __init__(self, metadata: Metadata) -> None:
        self._metadata = metadata

    def round(self) -> int:
        """One round; how many rows went. A database that is away is left for the next one."""
        gone = 0
        try:
            for step in _STEPS:
                gone += sum(self._batches(step))
        except ExternalFailure as problem:
            _log.warning("nothing is cleared away while the database is away: %s", problem)
        return gone

    def _batches(self, step: Step) -> Iterator[int]:
        for _ in range(_BATCHES):
            with self._metadata.begin() as connection:
                gone = step(connection, self._metadata.now(connection))
            yield gone
            if gone < BATCH:
                return


def _delete(connection: Connection, table: Table, found: Select[Any]) -> int:
    keys = list(table.primary_key.columns)
    rows = [tuple(row) for row in connection.execute(found.with_only_columns(*keys).limit(BATCH))]
    if rows:
        matching = keys[0].in_([row[0] for row in rows]) if len(keys) == 1 else tuple_(*keys).in_(rows)
        connection.execute(delete(table).where(matching))
    return len(rows)


def _events(connection: Connection, now: dt.datetime) -> int:
    return _delete(connection, run_event, select(run_event).where(run_event.c.time < now - EVENTS))


def _operations(connection: Connection, now: dt.datetime) -> int:
    return _delete(connection, operation, select(operation).where(operation.c.end_time < now - OPERATIONS))


def _fires(connection: Connection, now: dt.datetime) -> int:
    old = schedule_fire.c.decided_at < now - FIRES, schedule_fire.c.result != "QUEUED"
    return _delete(connection, schedule_fire, select(schedule_fire).where(*old))


def _audit(connection: Connection, now: dt.datetime) -> int:
    return _delete(connection, audit, select(audit).where(audit.c.time < now - AUDIT))


def _checkpoints(connection: Connection, _: dt.datetime) -> int:
    """All but the newest of each slot. What failed takes no place of an epoch by which stored state is known."""
    alike = execution.c.job_id, execution.c.slot_no, checkpoint.c.status
    rank = func.row_number().over(partition_by=alike, order_by=checkpoint.c.id.desc())
    joined = checkpoint.join(execution, execution.c.execution_id == checkpoint.c.execution_id)
    ranked = select(checkpoint.c.id, rank.label("rank")).select_from(joined).subquery()
    older = select(ranked.c.id).where(ranked.c.rank > KEPT_CHECKPOINTS)
    return _delete(connection, checkpoint, select(checkpoint).where(checkpoint.c.id.in_(older)))


def _letters(connection: Connection, _: dt.datetime) -> int:
    """All but the newest of each step of a run, which may go on for years."""
    of_step = dead_letter.c.execution_id, dead_letter.c.step_uid
    rank = func.row_number().over(partition_by=of_step, order_by=dead_letter.c.id.desc())
    ranked = select(dead_letter.c.id, rank.label("rank")).subquery()
    older = select(ranked.c.id).where(ranked.c.rank > KEPT_LETTERS)
    return _delete(connection, dead_letter, select(dead_letter).where(dead_letter.c.id.in_(older)))


def _nodes(connection: Connection, now: dt.datetime) -> int:
    """Those not heard of for long, as machines of a cloud that come and go; a cordon stays, and whoever answers for a run."""
    has_run = select(execution.c.id).where(execution.c.node_id == node.c.id, execution.c.status.in_(OPEN))
    silent = node.c.heartbeat_at < now - NODES, node.c.state != "CORDONED", ~has_run.exists()
    return _delete(connection, node, select(node).where(*silent))


def _savepoints(connection: Connection, now: dt.datetime) -> int:
    """Those that were disposed of, old ones, when nobody asks any more what came of it."""
    asked = select(operation.c.id).where(
        operation.c.target == literal("savepoint:").concat(cast(savepoint.c.id, String))
    )
    gone = savepoint.c.status == "DISPOSED", savepoint.c.create_time < now - RUNS, ~asked.exists()
    return _delete(connection, savepoint, select(savepoint).where(*gone))


def _runs(connection: Connection, now: dt.datetime) -> int:
    """Runs that ended long ago and are not among the last of their job, with what belongs to them; savepoints stay."""
    rank = func.row_number().over(partition_by=execution.c.job_id, order_by=execution.c.id.desc())
    ranked = select(execution.c.execution_id, execution.c.status, execution.c.end_time, rank.label("rank")).subquery()
    ended = ranked.c.status.in_(FINAL), ranked.c.end_time < now - RUNS, ranked.c.rank > KEPT_RUNS
    runs = list(connection.execute(select(ranked.c.execution_id).where(*ended).limit(BATCH)).scalars())
    if runs:
        connection.execute(update(savepoint).where(savepoint.c.execution_id.in_(runs)).values(execution_id=None))
        for table in (run_event, checkpoint, dead_letter, execution):
            connection.execute(delete(table).where(table.c.execution_id.in_(runs)))
    return len(runs)


_STEPS: tuple[Step, ...] = (
    _events,
    _operations,
    _checkpoints,
    _letters,
    _fires,
    _audit,
    _savepoints,
    _nodes,
    _runs,
)
