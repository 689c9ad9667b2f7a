"""A node: its loop registers, keeps its leases, asks its drivers, writes down what they report, and claims new runs."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

import msgspec
from sqlalchemy import Row

from millstream.checkpoint.failpoint import failpoint
from millstream.contract.driver_protocol import DriverReport, RunSpec
from millstream.control.act import Act, acting
from millstream.control.dispatcher.keeping import clear_after
from millstream.control.dispatcher.stopping import run_of
from millstream.control.lifecycle.states import Status
from millstream.control.metadata.database import Metadata
from millstream.control.nodes import registration
from millstream.control.nodes.claims import TERM, Claim, claim, owned_run, owned_runs, renew
from millstream.control.nodes.host import DriverHost, boot_seconds
from millstream.control.nodes.lost import is_fenced, lose, tell
from millstream.control.nodes.owned import OwnedRun
from millstream.control.nodes.placing import Places, SecretsOfRun, secret_names, spec_of, with_code
from millstream.control.nodes.registration import NodeState, Offer
from millstream.control.nodes.reports import ReportWriter, StateData, looked
from millstream.control.nodes.requests import DriverRequests
from millstream.control.nodes.savepoint_views import with_records
from millstream.control.nodes.watching import Watching
from millstream.control.tracing.traces import NoTraces, Traces
from millstream.errors import ExternalFailure, MillstreamError

RENEW_SECONDS = 5.0
_TERM_MS = int(TERM.total_seconds() * 1000)
_REPORTS_AT_ONCE = 200
_log = logging.getLogger(__name__)


class Node:
    """One node process. `round` is one pass of its loop; everything it decides is a compare-and-set in the database."""

    def __init__(
        self,
        metadata: Metadata,
        offer: Offer,
        host: DriverHost,
        places: Places,
        *,
        secrets: SecretsOfRun,
        state_data: Callable[[str, int], StateData],
        monotonic: Callable[[], float] = time.monotonic,
        traces: Traces | None = None,
    ) -> None:
        self._metadata, self._offer, self._host, self._places = metadata, offer, host, places
        self._secrets, self._state_data, self._monotonic = secrets, state_data, monotonic
        self._runs: dict[str, OwnedRun] = {}
        self._watching, self._traces = Watching(host, monotonic), traces or NoTraces()
        self._requests = DriverRequests(monotonic)
        self._renewed_at = float("-inf")
        self._state: NodeState = "ACTIVE"
        self._is_registered = False
        self.lock = threading.Lock()
        """Guards the table of runs for those who look."""

    def start(self) -> None:
        """Register, and take up what an earlier process of this node left."""
        with acting(self._metadata, self._actor) as act:
            registration.register(act, self._offer, alone=self._metadata.is_sqlite)
            failpoint("node_registered")
        self._is_registered = True
        self._take_up()

    @property
    def _actor(self) -> str:
        return f"node:{self._offer.id}"

    def _take_up(self) -> None:
        """Runs of this node that this process does not know: of an earlier process, or of a claim whose reply was lost."""
        with acting(self._metadata, self._actor) as act:
            unknown = [run for run in owned_runs(act, self._offer.id) if run.execution_id not in self._runs]
        for run in unknown:
            try:
                self._adopt(run)
            except ExternalFailure:
                raise
            except Exception:
                _log.exception("run %s could not be taken up; it is tried again", run.execution_id)

    def _adopt(self, run: Row[Any]) -> None:
        """A driver that outlived the process that started it is connected to again."""
        owned = OwnedRun.of(run, run.token, self._monotonic(), self._traces)
        words = self._host.last_words(owned.id, owned.token, after=owned.seq)
        is_alive = self._host.is_alive(owned.id, owned.token)
        if not words and not is_alive:
            cause = "its driver was gone when the node came back" if is_alive is False else "its driver never began"
            with acting(self._metadata, self._actor) as act:
                lose(act, run, cause, is_cancelled=run.status == Status.CANCELLING, counts=is_alive is False)
            return
        for report in words:
            owned.take(report)
        with acting(self._metadata, self._actor) as act:
            names = secret_names(act, run)
        # Secrets are read in a transaction of their own: SQLite has one at a time.
        self._connect(owned, names)
        failpoint("node_adopted")

    def _connect(self, owned: OwnedRun, names: Collection[str]) -> None:
        """Secrets are sent again: the process that started the driver may have ended before it sent them."""
        values = self._secrets(owned.job_id, names) if names else {}
        owned.link = self._host.link(owned.id, owned.token, from_seq=owned.seq, on_report=owned.take)
        if values:
            owned.link.secrets(values)
        with self.lock:
            self._runs[owned.id] = owned

    def round(self) -> None:
        """One pass; a database that is away is waited for: drivers stop publishing by themselves."""
        try:
            if not self._is_registered:
                self.start()
            self._renew()
            self._write_reports()
            self._ask()
            self._watch()
            self._claim()
        except ExternalFailure as problem:
            _log.warning("the database is away: %s", problem)

    def _renew(self) -> None:
        """Heartbeat and all leases in one transaction; the time that is left counts from before it was sent."""
        sent, told = self._monotonic(), boot_seconds()
        if sent - self._renewed_at < RENEW_SECONDS:
            return
        mine = list(self._runs.values())
        held = {owned.lease: owned.token for owned in mine}
        with acting(self._metadata, self._actor) as act:
            state = registration.beat(act, self._offer, {"runs": len(held)})
            kept = renew(act, self._offer.id, held) if state is not None else ()
            for owned in self._runs.values():
                # A newer process of this node takes the runs over as they are: then no lease is lost.
                if owned.lease not in kept and state is not None:
                    tell(act, owned.id, owned.token, "lease_lost", f"node {self._offer.id} lost its lease")
        failpoint("node_renewed")
        self._renewed_at = sent
        self._state = state or "GONE"
        for owned in mine:
            if owned.lease not in kept:
                self._give_up(owned)
            elif owned.link is not None:
                owned.link.renewed(_TERM_MS, told)
        if state is not None:
            self._take_up()

    def _give_up(self, owned: OwnedRun) -> None:
        """Another owns the run: its driver here must end. What it writes meanwhile is fenced."""
        _log.warning("the lease of run %s is lost", owned.id)
        self._host.kill(owned.id, owned.token)
        self._forget(owned)

    def _forget(self, owned: OwnedRun) -> None:
        if owned.link is not None:
            owned.link.close()
        with self.lock:
            self._runs.pop(owned.id, None)

    def _write_reports(self) -> None:
        """All reports that came, in one transaction for each run."""
        for owned in list(self._runs.values()):
            reports = owned.waiting(_REPORTS_AT_ONCE)
            try:
                self._write(owned, reports)
            except ExternalFailure:
                raise
            except Exception:
                _log.exception("reports of run %s cannot be written down", owned.id)
                self._write_readable(owned, reports)

    def _write(self, owned: OwnedRun, reports: list[DriverReport]) -> None:
        if not reports:
            return
        ended = any(report.type == "result" for report in reports)
        # Read before the transaction: manifests may be far away, and others wait for who writes.
        known, told = looked(reports, self._state_data(owned.id, owned.token)), with_records(reports)
        with acting(self._metadata, self._actor) as act:
            row = self._row(act, owned)
            if is_fenced(reports):
                tell(act, owned.id, owned.token, "fenced", "its driver found a newer owner of the checkpoint")
            writer = ReportWriter(act, owned.token, known.get)
            is_mine = row is not None and writer.write(row, told)
            if is_mine and ended:
                # Before anybody can claim the next run of the job, which would begin in the same place.
                self._clear(act, owned)
        failpoint("node_reported")
        owned.written(reports)
        if not is_mine:
            self._give_up(owned)
        elif ended:
            self._forget(owned)

    def _write_readable(self, owned: OwnedRun, reports: list[DriverReport]) -> None:
        """One by one; what cannot be written down is left out, so that one report does not hold up everything behind it."""
        for report in reports:
            try:
                if owned.id in self._runs:
                    self._write(owned, [report])
            except ExternalFailure:
                raise
            except Exception:
                _log.exception("report %d of run %s is left out", report.seq, owned.id)
                owned.written([report])
                if report.type == "result":
                    self._lose(owned, "how it ended could not be written down")

    def _row(self, act: Act, owned: OwnedRun) -> Row[Any] | None:
        """The row of a run, if it is still this node's by this claim."""
        return owned_run(act, self._offer.id, owned.id, owned.token)

    def _clear(self, act: Act, owned: OwnedRun) -> None:
        try:
            clear_after(act, run_of(act, owned.id), self._places.checkpoints)
        except OSError as problem:
            _log.warning("the checkpoint of run %s could not be removed: %s", owned.id, problem)

    def _ask(self) -> None:
        """Carry what people want to the drivers."""
        if self._runs:
            with acting(self._metadata, self._actor) as act:
                self._requests.carry(act, self._runs)
            if self._state == "DRAINING":
                self._drain()

    def _drain(self) -> None:
        """The node is to be empty: every run ends as its job says a stop ends it, and starts again elsewhere."""
        for owned in self._runs.values():
            if not owned.is_stopped:
                owned.is_stopped = True
                self._host.stop(owned.id, owned.token)

    def _watch(self) -> None:
        """Drivers that ended without a word, hang, or do not end when they should."""
        for owned, cause in self._watching.lost(list(self._runs.values())):
            self._lose(owned, cause)

    def _lose(self, owned: OwnedRun, cause: str) -> None:
        with acting(self._metadata, self._actor) as act:
            row = self._row(act, owned)
            if row is not None:
                lose(act, row, cause, is_cancelled=row.status == Status.CANCELLING)
        self._traces.send(owned.spans.ended(time.time(), error="CTL-052"))
        self._host.kill(owned.id, owned.token)
        self._forget(owned)

    def _claim(self) -> None:
        while self._state == "ACTIVE" and len(self._runs) < self._offer.slots:
            sent = boot_seconds()
            with acting(self._metadata, self._actor) as act:
                claimed = claim(act, self._offer.id, self._offer.labels)
                spec = None if claimed is None else self._spec(act, claimed)
            if claimed is None or spec is None:
                return
            failpoint("node_claimed")
            before = self._runs.get(spec.run)
            if before is not None:
                self._give_up(before)
            self._launch(claimed, spec, sent)

    def _spec(self, act: Act, claimed: Claim) -> RunSpec | None:
        """One that cannot be started must not come first again and again: its failure is written down."""
        try:
            return spec_of(act, claimed.run, claimed.token, self._places)
        except (MillstreamError, msgspec.ValidationError, OSError) as problem:
            _log.exception("run %s cannot be started", claimed.run.execution_id)
            lose(act, claimed.run, f"it cannot be started: {problem}", error=problem)
            return None

    def _launch(self, claimed: Claim, spec: RunSpec, sent: float) -> None:
        owned = OwnedRun.of(claimed.run, claimed.token, self._monotonic(), self._traces)
        self._traces.send(owned.spans.claimed(time.time()))
        try:
            self._host.launch(with_code(spec, self._places))
            failpoint("node_launched")
            self._connect(owned, spec.secret_names)
        except (MillstreamError, OSError) as problem:
            with acting(self._metadata, self._actor) as act:
                lose(act, claimed.run, f"its driver could not be started: {problem}", error=problem)
            self._host.kill(owned.id, owned.token)
            return
        assert owned.link is not None, "it was connected just now"
        owned.link.renewed(_TERM_MS, sent)

    def runs(self) -> Mapping[str, OwnedRun]:
        """What this node answers for now."""
        with self.lock:
            return dict(self._runs)

    def leave(self) -> None:
        """The node process ends; its drivers go on, and the next process of this node adopts them."""
        for owned in list(self._runs.values()):
            self._forget(owned)
