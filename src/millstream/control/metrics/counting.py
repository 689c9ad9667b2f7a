"""Counters over rows that are pruned one day: what was counted is kept, what came since is counted where it stands.

A counter is the stored sum of everything up to a mark, and a count of the rows behind it. The mark follows the present at a
distance, so that what was written in a transaction that is still open is not passed over. Any server moves it, one at a time;
nothing is written on the path of runs. All servers tell the same numbers, and a restart of one loses nothing.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any, NamedTuple

from sqlalchemy import Select, insert, select, update

from millstream.control.act import Act
from millstream.control.metadata.tables.counters import counter, counter_mark
from millstream.control.metadata.tables.jobs import job_definition
from millstream.control.metadata.tables.runs import execution, run_event
from millstream.control.metadata.tables.schedules import schedule_fire
from millstream.control.metadata.upserts import insert_into
from millstream.control.metrics.tallies import KINDS, Tally, TallyKey, added, of_event, of_fire

SETTLED = dt.timedelta(seconds=60)
"""Transactions take milliseconds: a row of a minute ago is there, or never comes."""
AT_ONCE = 2000
"""Rows that one transaction takes in."""
_MARK = "events"


class _Counted(NamedTuple):
    tallies: list[Tally]
    through: dt.datetime
    """How far they reach: not to the end asked for, where there are too many."""


def counters(act: Act, *, at_once: int = AT_ONCE) -> Mapping[TallyKey, float]:
    """All counters as they are now. One that has much to catch up with tells more when it is asked again."""
    mark = _mark(act)
    settled = max(mark, act.now - SETTLED)
    folded = _between(act, mark, settled, at_once)
    if folded.through > mark:
        moved = update(counter_mark).where(counter_mark.c.name == _MARK).values(through=folded.through)
        act.connection.execute(moved)
        _store(act, added(folded.tallies))
    stored = {TallyKey(row.name, row.labels, row.part): row.value for row in act.connection.execute(select(counter))}
    if folded.through < settled:
        return stored
    recent = _between(act, folded.through, None, None)
    return added([*stored.items(), *recent.tallies])


def _mark(act: Act) -> dt.datetime:
    """Up to when everything is counted; counting begins when somebody first asks. Others who ask wait for this transaction."""
    asked = select(counter_mark.c.through).where(counter_mark.c.name == _MARK).with_for_update()
    through: dt.datetime | None = act.connection.execute(asked).scalar()
    if through is not None:
        return through
    first = insert_into(act.connection, counter_mark).values(name=_MARK, through=act.now)
    act.connection.execute(first.on_conflict_do_nothing())
    begun: dt.datetime = act.connection.execute(asked).scalar_one()
    return begun


def _store(act: Act, sums: Mapping[TallyKey, float]) -> None:
    for key, amount in sums.items():
        grown = update(counter).where(counter.c.name == key.name, counter.c.labels == key.labels)
        grown = grown.where(counter.c.part == key.part).values(value=counter.c.value + amount)
        if act.connection.execute(grown.returning(counter.c.name)).first() is None:
            act.connection.execute(insert(counter).values(**key._asdict(), value=amount))


def _between(act: Act, after: dt.datetime, through: dt.datetime | None, limit: int | None) -> _Counted:
    """What rows behind one instant, up to another, count for; with a limit, no more than about so many."""
    until = through
    if limit is not None:
        for rows, at in ((_events(), run_event.c.time), (_fires(), schedule_fire.c.decided_at)):
            # Rows of one instant stay together: the mark is an instant.
            past = rows.where(at > after, at <= until).with_only_columns(at).order_by(at).offset(limit).limit(1)
            until = act.connection.execute(past).scalar() or until
    tallies: list[Tally] = []
    for event in act.connection.execute(_within(_events(), run_event.c.time, after, until)):
        tallies += of_event(event)
    for fire in act.connection.execute(_within(_fires(), schedule_fire.c.decided_at, after, until)):
        tallies += of_fire(fire)
    return _Counted(tallies, until or after)


def _within(rows: Select[Any], at: Any, after: dt.datetime, until: dt.datetime | None) -> Select[Any]:
    behind = rows.where(at > after)
    return behind if until is None else behind.where(at <= until)


def _events() -> Select[Any]:
    """Events that may count, with what counting them needs of their runs."""
    joined = run_event.join(execution, execution.c.execution_id == run_event.c.execution_id)
    columns = execution.c.job_name, execution.c.start_time, run_event
    return select(*columns).select_from(joined).where(run_event.c.kind.in_(["moved", *KINDS]))


def _fires() -> Select[Any]:
    joined = schedule_fire.join(job_definition, job_definition.c.id == schedule_fire.c.job_id)
    return select(job_definition.c.job_name, schedule_fire).select_from(joined)
