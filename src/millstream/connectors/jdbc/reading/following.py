"""How a source without an end goes on: it looks for a new bound now and then, and lets it settle before it is read up to."""

from __future__ import annotations

from typing import NamedTuple

from millstream.connectors.jdbc.reading.background import Background
from millstream.connectors.jdbc.reading.boundaries import WAIT_SECONDS
from millstream.connectors.jdbc.reading.decision import highest, refuse_nulls, too_slow
from millstream.connectors.jdbc.reading.keys import KeyValues
from millstream.connectors.jdbc.reading.position import KeyPosition
from millstream.connectors.jdbc.reading.probe import Probe, StatementTimedOut
from millstream.connectors.jdbc.reading.statements import KeyStatements
from millstream.model.connector import Options
from millstream.model.time import duration_ms, now_ms


class Bound(NamedTuple):
    """A bound that may be read up to, or how long there is none."""

    upper: KeyValues | None = None
    not_before: int = 0
    is_caught_up: bool = False
    """Nothing lay behind the position when it was looked at last."""


class _HighestKey(NamedTuple):
    """What was found behind a key, and when."""

    after: KeyValues | None
    upper: KeyValues | None
    at: int


class Following:
    """Polls for the highest key. A row may become visible after one with a higher key: `settle` waits for such rows."""

    def __init__(self, probe: Probe, background: Background, options: Options, *, step: str) -> None:
        self._probe, self._background, self._options, self._step = probe, background, options, step
        self._poll, self._settle = duration_ms(options["poll"]), duration_ms(options["settle"])
        self._seen: _HighestKey | None = None

    def bound_behind(self, position: KeyPosition, statements: KeyStatements) -> Bound:
        """The bound for a source that has read everything up to `position`."""
        self._background.check()
        now = now_ms()
        if self._is_due(position, now) and not self._background.is_busy:
            self._background.begin(lambda: self._look(position.at, statements))
            self._background.wait(WAIT_SECONDS)
            self._background.check()
            now = now_ms()
        seen = self._seen
        if seen is None or seen.after != position.at or self._background.is_busy:
            return Bound()
        if seen.upper is None:
            return Bound(not_before=seen.at + self._poll, is_caught_up=True)
        is_settled = now >= seen.at + self._settle
        return Bound(seen.upper) if is_settled else Bound(not_before=seen.at + self._settle)

    def _is_due(self, position: KeyPosition, now: int) -> bool:
        seen = self._seen
        if seen is None or seen.after != position.at:
            return True
        return seen.upper is None and now >= seen.at + self._poll

    def _look(self, after: KeyValues | None, statements: KeyStatements) -> None:
        now = now_ms()
        try:
            refuse_nulls(self._probe, statements, self._options, step=self._step)
            upper = highest(self._probe, statements, after)
        except StatementTimedOut as problem:
            raise too_slow(self._options, problem, step=self._step) from problem
        self._seen = _HighestKey(after, upper, now)
