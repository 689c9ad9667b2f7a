"""The `http` source: pages are fetched ahead into the intake log; an epoch admits those that are durable there."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from millstream.connectors.decided import decided_once
from millstream.connectors.gathering import GatheringPause
from millstream.connectors.http.asking.client import HttpClient
from millstream.connectors.http.fetching import PageFetcher
from millstream.connectors.http.opening import opened_exchange
from millstream.connectors.http.position import (
    ApiPosition,
    beginning,
    changed,
    is_finished,
    position_of,
    renewed,
    to_json,
)
from millstream.connectors.http.schedule import expected_partitions
from millstream.connectors.http.settings import settings_of
from millstream.connectors.intake.files import LoggedEntry
from millstream.connectors.intake.intake import Intake
from millstream.connectors.intake.reading import parts_of
from millstream.contract.source import Advance, Credit, Position, SourceContext, Split
from millstream.errors import MillstreamError
from millstream.model.connector import Options
from millstream.model.time import now_ms

_GATHERING_MS = 50
"""How often to look whether enough pages have come: to look takes time from those who fetch."""


class HttpEnumerator:
    """Admits whole pages under the credit. Fetching begins with the first epoch and goes on until it is closed."""

    def __init__(self, options: Options, context: SourceContext) -> None:
        self._settings = settings_of(options)
        self._context = context
        self._own_folder = None if context.log_dir is not None else tempfile.mkdtemp(prefix="millstream-http-")
        self._folder = Path(self._own_folder or context.log_dir or "").absolute()
        self._intake = Intake(self._folder, context.token, ahead_bytes=self._settings.ahead_bytes, takes_rest=True)
        self._began: int | None = None
        self._fetcher: PageFetcher | None = None
        self._client: HttpClient | None = None
        self._gathering = GatheringPause()
        self._ended: set[str] = set()
        """Slices that are known to have ended."""

    def initial(self) -> Position:
        """Before the first page."""
        return to_json(beginning(self._settings, self._context.lineage, self._run_began()))

    def _run_began(self) -> int:
        """The moment that counts as now for all of a run: what steps of time go up to."""
        if self._began is None:
            name = f"http-run-{self._context.lineage}"
            self._began = int(decided_once(self._context.log_dir, name, now_ms))
        return self._began

    def advance(self, start: Position, credit: Credit) -> Advance:
        """Admit the pages behind `start` that are durable and fit the credit, at least one."""
        position = self._taken_over(start)
        fetcher = self._fetching(position)
        is_filling, (resting, until) = self._intake.is_filling, fetcher.resting()
        waiting = self._intake.after(position.place)
        admitted = list(_admitted(waiting, credit))
        if not admitted:
            self._raise_failure(waiting)
        is_enough = until > 0 or not is_filling or len(admitted) < len(waiting)
        if admitted and self._gathering.goes_on(is_enough=is_enough):
            # All of them would be read: none lies behind the epoch.
            waiting, admitted, until = [], [], now_ms() + _GATHERING_MS
        position, left = self._behind(position, admitted), waiting[len(admitted) :]
        lags = Counter[str]()
        for entry in left:
            lags[entry.note["slice"]] += entry.rows
        return Advance(
            position=to_json(position),
            finished=is_finished(self._settings, position),
            not_before=until if not left and not admitted else 0,
            lag=sum(lags.values()),
            lags=lags,
            ahead=self._intake.ahead(admitted),
            blocked={name: each.why for name, each in resting.items()},
            partitions=expected_partitions(self._settings, position),
            drained=frozenset(self._ended),
        )

    def _behind(self, position: ApiPosition, admitted: Sequence[LoggedEntry]) -> ApiPosition:
        for entry in admitted:
            if None in entry.note["change"].get("slices", {}).values():
                self._ended.add(entry.note["slice"])
            position = changed(position, entry.note["change"], entry.place)
        return position

    def _taken_over(self, start: Position) -> ApiPosition:
        stored = position_of(start)
        if stored.run == self._context.lineage:
            return stored
        return renewed(self._settings, stored, self._context.lineage, self._run_began())

    def _fetching(self, position: ApiPosition) -> PageFetcher:
        if self._fetcher is None:
            settings = self._settings
            self._client, exchange = opened_exchange(
                allowed=settings.allowed,
                limits=settings.limits,
                auth=settings.auth,
                rules=settings.rules,
                rates=settings.rates,
                step=self._context.step,
                wait=self._intake.wait,
            )
            self._fetcher = PageFetcher(settings, position, self._client, exchange)
            self._intake.begin(position.place, self._fetcher)
        return self._fetcher

    def _raise_failure(self, waiting: Sequence[LoggedEntry]) -> None:
        """What went wrong is told once the pages before it are read: they are whole, and will not be asked for again."""
        if waiting:
            return
        try:
            self._intake.raise_failure()
        except MillstreamError as problem:
            raise problem.of_step(self._context.step) from problem

    def splits(self, start: Position, end: Position) -> Sequence[Split]:
        """Pages of one slice each, in as many pieces as there are tasks."""
        entries = self._intake.between(self._taken_over(start).place, position_of(end).place)
        share = -(-sum(entry.rows for entry in entries) // self._context.parallelism)
        return [self._split(piece) for piece in _pieces(entries, share)]

    def _split(self, entries: Sequence[LoggedEntry]) -> Split:
        body: Any = {"folder": str(self._folder), "parts": parts_of(entries)}
        return Split(entries[0].note["slice"], body, sum(entry.rows for entry in entries))

    def acknowledge(self, position: Position) -> None:
        """Pages before the position will not be read again, apart from those of the last epoch."""
        self._intake.acknowledge(position_of(position).place)

    def close(self) -> None:
        """End the fetching."""
        self._intake.close()
        if self._client is not None:
            self._client.close()
            self._client = None
        if self._own_folder is not None:
            shutil.rmtree(self._own_folder, ignore_errors=True)


def _admitted(waiting: Sequence[LoggedEntry], credit: Credit) -> Iterator[LoggedEntry]:
    """As many pages as fit, at least one that has rows; pages without rows go along."""
    rows = size = 0
    for entry in waiting if credit > 0 else ():
        is_over = rows + entry.rows > credit or (credit.bytes is not None and size + entry.bytes > credit.bytes)
        if rows and entry.rows and is_over:
            return
        yield entry
        rows, size = rows + entry.rows, size + entry.bytes


def _pieces(entries: Sequence[LoggedEntry], share: int) -> Iterator[list[LoggedEntry]]:
    """Pages with rows, those of one slice together, in pieces of about so many rows."""
    slices: dict[str, list[LoggedEntry]] = {}
    for entry in entries:
        if entry.rows:
            slices.setdefault(entry.note["slice"], []).append(entry)
    for mine in slices.values():
        piece: list[LoggedEntry] = []
        rows = 0
        for entry in mine:
            piece.append(entry)
            rows += entry.rows
            if rows >= share:
                yield piece
                piece, rows = [], 0
        if piece:
            yield piece
