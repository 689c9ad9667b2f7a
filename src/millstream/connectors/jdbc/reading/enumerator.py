"""The half that runs on the driver: which ranges of the key an epoch reads, decided by index probes alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from millstream.connectors.decided import decided_once
from millstream.connectors.gathering import GatheringPause
from millstream.connectors.jdbc.reading.background import Background
from millstream.connectors.jdbc.reading.boundaries import Boundaries, Boundary
from millstream.connectors.jdbc.reading.decision import Decision, decide, too_slow
from millstream.connectors.jdbc.reading.following import Following
from millstream.connectors.jdbc.reading.keys import KeyValues
from millstream.connectors.jdbc.reading.opening import login_of, open_probe, require_driver
from millstream.connectors.jdbc.reading.position import KeyPosition
from millstream.connectors.jdbc.reading.probe import StatementTimedOut
from millstream.connectors.jdbc.reading.statements import KeyStatements
from millstream.contract.source import Advance, Credit, Position, SourceContext, Split
from millstream.model.connector import Options
from millstream.model.time import duration_ms, now_ms

PARTITION = "0"
CHUNK_BYTES = 32 << 20
"""A range has at most about so many bytes: its rows are in memory at once."""
_WHOLE = {"done": False}


class JdbcEnumerator:
    """Deals out ranges of the key up to a bound that is frozen once; or, without a key, everything at once."""

    def __init__(self, options: Options, context: SourceContext) -> None:
        require_driver(options, step=context.step)
        self._options, self._context = options, context
        self._run = ""
        self._decisions: dict[str, Decision] = {}
        self._probe = open_probe(options, login_of(options, job=context.job, step=context.step))
        self._background = Background()
        self._boundaries = Boundaries(self._boundary, self._background)
        self._gathering = GatheringPause()
        self._settle = duration_ms(options["settle"])
        self._following = Following(self._probe, self._background, options, step=context.step)

    @property
    def _decided(self) -> Decision:
        """What this source is in the run of the position last seen: decided by whoever asks first, then read."""
        if self._run not in self._decisions:
            name = f"jdbc-{self._run}" if self._run else "jdbc"
            stored = decided_once(self._context.log_dir, name, self._decide_now)
            self._decisions = {self._run: Decision.from_json(stored)}
        return self._decisions[self._run]

    def _decide_now(self) -> dict[str, Any]:
        now = now_ms()
        return decide(self._probe, self._options, self._context.schema, step=self._context.step, now=now).to_json()

    @property
    def _statements(self) -> KeyStatements:
        return KeyStatements(dialect=self._probe.dialect, source=self._probe.source, key=self._decided.key)

    def next_run(self, position: Position) -> Position:
        """Behind the last key that was read, up to the highest one of now. Without a key nothing tells what is new."""
        if self._options["incremental"] or "key" not in position:
            return position
        self._run = self._context.lineage
        return dataclasses.replace(self._position({**position, "run": self._run}), cuts=()).to_json()

    def initial(self) -> Position:
        """Before the first row, with the bound that counts for a source with an end."""
        self._run = ""
        decided = self._decided
        if not decided.key:
            return _WHOLE
        is_done = decided.upper is None
        return KeyPosition(key=decided.key, upper=decided.upper, is_done=is_done).to_json()

    def advance(self, start: Position, credit: Credit) -> Advance:
        """Ranges for about the credit's rows, as far as their boundaries are known."""
        self._run = start.get("run", "")
        if not self._decided.key:
            return self._whole(start, credit)
        position = self._position(start)
        if credit <= 0:
            return self._standing(start, position)
        if self._options["incremental"]:
            return self._follow(start, position, credit)
        upper = self._decided.upper
        if position.is_done and (upper is None or upper == position.upper):
            return self._without_key(start, position) or self._standing(start, position)
        ready = self._decided.at + self._settle
        if position.is_done:
            position = dataclasses.replace(position, upper=upper, is_done=False)
        if position.upper == upper and now_ms() < ready:
            return dataclasses.replace(self._standing(start, position), not_before=ready)
        return self._onwards(start, position, credit)

    def _follow(self, start: Position, position: KeyPosition, credit: Credit) -> Advance:
        """A source without an end: when it has caught up, it looks for a new bound now and then."""
        if not position.is_done:
            return self._onwards(start, position, credit)
        found = self._following.bound_behind(position, self._statements)
        if found.upper is not None:
            moved = dataclasses.replace(position, upper=found.upper, is_done=False)
            return self._onwards(start, moved, credit)
        waiting = self._without_key(start, position) or self._standing(start, position)
        return dataclasses.replace(
            waiting, not_before=found.not_before, drained=(PARTITION,) if found.is_caught_up else ()
        )

    def _onwards(self, start: Position, position: KeyPosition, credit: Credit) -> Advance:
        assert position.upper is not None, "there is a bound to read to"
        wanted = self._rows_for(credit)
        step = max(1, min(-(-wanted // self._context.parallelism), self._chunk))
        taken = self._boundaries.take(position.at, position.upper, wanted, step)
        if not taken or self._waits_for_more(taken, wanted - step):
            return self._standing(start, position)
        cuts = tuple(each.key for each in taken if each.rows)
        moved = dataclasses.replace(
            position,
            at=cuts[-1] if cuts else position.at,
            rows=position.rows + sum(each.rows for each in taken),
            is_done=taken[-1].is_last,
            has_nulls=self._options["nulls"] == "read",
            cuts=cuts,
        )
        return self._told(moved)

    def _waits_for_more(self, taken: Sequence[Boundary], most: int) -> bool:
        """Whether boundaries for a larger epoch are on their way. A source without an end does not wait: somebody looks at it."""
        is_enough = taken[-1].is_last or sum(each.rows for each in taken) > most
        return self._gathering.goes_on(is_enough=is_enough or self._options["incremental"])

    def _without_key(self, start: Position, position: KeyPosition) -> Advance | None:
        """Rows whose key has a null, where nothing else is to be read."""
        if position.has_nulls or self._options["nulls"] != "read":
            return None
        del start
        return self._told(dataclasses.replace(position, has_nulls=True, cuts=()))

    def _told(self, moved: KeyPosition) -> Advance:
        return dataclasses.replace(self._standing(moved.to_json(), moved), drained=())

    def _standing(self, position: Position, known: KeyPosition) -> Advance:
        """Nothing is read; how much waits is told."""
        return Advance(
            position=position, finished=self._is_finished(known), lag=self._lag(known), partitions=(PARTITION,)
        )

    def _is_finished(self, position: KeyPosition) -> bool:
        if self._options["incremental"] or not position.is_done:
            return False
        has_nulls = position.has_nulls or self._options["nulls"] != "read"
        return has_nulls and (self._decided.upper is None or self._decided.upper == position.upper)

    def _lag(self, position: KeyPosition) -> int | None:
        if position.is_done:
            return 0
        total = self._decided.total
        return None if total is None else max(1, total - position.rows)

    def _rows_for(self, credit: Credit) -> int:
        rows = int(credit)
        return rows if credit.bytes is None else max(1, min(rows, credit.bytes // self._decided.width))

    @property
    def _chunk(self) -> int:
        most: int = self._options["chunk_rows"]
        return max(1, min(most, CHUNK_BYTES // self._decided.width))

    def _boundary(self, low: KeyValues | None, high: KeyValues, step: int) -> Boundary:
        """The next boundary, or how many rows are left; asked in the background."""
        try:
            found = self._probe.fetch(self._statements.boundary(low, high, step))
            if found:
                key = self._probe.key_values(found[0])
                return Boundary(key, step, is_last=key == high)
            ((left,),) = self._probe.fetch(self._statements.count(low, high, most=step))
        except StatementTimedOut as problem:
            if step == 1:
                raise too_slow(self._options, problem, step=self._context.step) from problem
            raise
        return Boundary(high, int(left), is_last=True)

    def _whole(self, start: Position, credit: Credit) -> Advance:
        is_read = start["done"] or credit > 0
        lag = 0 if is_read else self._decided.total
        return Advance(position={"done": is_read}, finished=is_read, lag=lag, partitions=(PARTITION,))

    def _position(self, value: Position) -> KeyPosition:
        self._run = value.get("run", "")
        names = tuple(column.name for column in self._decided.key)
        return KeyPosition.from_json(value, names, step=self._context.step)

    def splits(self, start: Position, end: Position) -> Sequence[Split]:
        """From the positions and the decision alone; the database is not asked."""
        self._run = end.get("run", "")
        if not self._decided.key:
            is_read = end["done"] and not start["done"]
            return [Split(PARTITION, self._body(kind="whole"), self._decided.total or 0)] if is_read else []
        first, last = self._position(start), self._position(end)
        ranges = last.ranges_from(first)
        rows = max(1, (last.rows - first.rows) // max(1, len(ranges)))
        bodies = [self._body(kind="range", low=low, high=high, rows=rows) for low, high in ranges]
        if last.has_nulls and not first.has_nulls:
            bodies.insert(0, self._body(kind="nulls"))
        return [Split(PARTITION, {**body, "key": end["key"]}, rows) for body in bodies]

    def _body(self, **more: Any) -> dict[str, Any]:
        told = {"job": self._context.job, "step": self._context.step, "server": self._decided.server}
        return {**told, "forms": dict(self._decided.forms), **more}

    def acknowledge(self, position: Position) -> None:
        """Nothing waits for it: rows stay where they are."""

    def close(self) -> None:
        """End what is being asked, and the connection."""
        self._boundaries.forget()
        self._probe.cancel()
        self._background.end(self._probe.close)
