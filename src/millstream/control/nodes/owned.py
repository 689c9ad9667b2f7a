"""One run that this node answers for."""

from __future__ import annotations

import collections
import dataclasses
import itertools
import logging
import threading
from typing import Any

from sqlalchemy import Row

from millstream.contract.driver_protocol import DriverReport
from millstream.control.metrics.runs import RunFigures
from millstream.control.nodes.claims import lease_name
from millstream.control.nodes.host import Link
from millstream.control.nodes.live import LiveView
from millstream.control.tracing.spans import AttemptSpans
from millstream.control.tracing.traces import Traces

_log = logging.getLogger(__name__)


@dataclasses.dataclass(slots=True, kw_only=True)
class OwnedRun:
    """What the node knows of it. Reports come in by a thread of the link, and are taken by the node's own."""

    id: str
    job_id: int
    slot: int
    token: int
    figures: RunFigures
    spans: AttemptSpans
    traces: Traces
    since: float
    """When the node began to answer for it, by the clock that only rises."""
    link: Link | None = None
    seq: int = 0
    """The newest report that is written down."""
    asked: set[str] = dataclasses.field(default_factory=set)
    """Operations that the driver was asked for by this process."""
    is_stopped: bool = False
    """Its process was told to stop."""
    is_dumped: bool = False
    """It was silent, and asked what its threads do."""
    is_lost: bool = False
    """Its lease is another's by now."""
    promised: tuple[int, float] | None = None
    """For how many milliseconds it was this node's, and at what instant of `boot_seconds`."""
    cancelled_at: float | None = None
    taken: int = 0
    """The newest report that came: the link and the disk may tell the same."""
    inbox: collections.deque[DriverReport] = dataclasses.field(default_factory=collections.deque)
    live: LiveView = dataclasses.field(default_factory=LiveView)
    lock: threading.Lock = dataclasses.field(default_factory=threading.Lock)

    @classmethod
    def of(cls, run: Row[Any], token: int, since: float, traces: Traces) -> OwnedRun:
        """From its row."""
        spans = AttemptSpans(run, every=traces.every)
        driver = run.driver or {}
        seq = driver.get("seq", 0) if driver.get("token") == token else 0
        told = {"id": run.execution_id, "job_id": run.job_id, "slot": run.slot_no, "token": token}
        figures = RunFigures(run.job_name, run.slot_no)
        return cls(**told, figures=figures, spans=spans, traces=traces, since=since, seq=seq)

    @property
    def lease(self) -> str:
        """The lease under which it is held."""
        return lease_name(self.job_id, self.slot)

    def promise(self, at: float, milliseconds: int) -> None:
        """The run was this node's at an instant, for so long: its driver is told, now or when it is connected to."""
        self.promised = (milliseconds, at)
        if self.link is not None:
            self.link.renewed(milliseconds, at)

    def connected(self, link: Link) -> None:
        """Its driver can be told things from now on."""
        self.link = link
        if self.promised is not None:
            link.renewed(*self.promised)

    def take(self, report: DriverReport) -> None:
        """A report came; a driver that is connected to again tells some of them twice."""
        self.live.note(report)
        self.figures.take(report)
        with self.lock:
            if report.seq > max(self.taken, self.seq):
                self.taken = report.seq
                self.inbox.append(report)
                self._trace(report)

    def _trace(self, report: DriverReport) -> None:
        try:
            self.traces.send(self.spans.reported(report))
        except (KeyError, TypeError, ValueError) as problem:
            # Spans inform, they decide nothing: the report counts for everything else.
            _log.warning("a report of %s makes no spans: %s", self.id, problem)

    def waiting(self, limit: int) -> list[DriverReport]:
        """Reports that are not written down yet; they stay until `written` says that they are."""
        return list(itertools.islice(self.inbox, limit))

    def written(self, reports: list[DriverReport]) -> None:
        """These are in the database for good."""
        for _ in reports:
            self.inbox.popleft()
        self.seq = max([self.seq, *(report.seq for report in reports)])
