"""A node: its loop registers, keeps its leases, asks its drivers, writes down what they report, and claims new runs."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from sqlalchemy import Row

from millstream.checkpoint.failpoint import failpoint
from millstream.contract.driver_protocol import DriverReport, RunSpec
from millstream.control.act import Act, acting
from millstream.control.dispatcher.keeping import clear_after
from millstream.control.dispatcher.removing import removing
from millstream.control.dispatcher.stopping import run_of
from millstream.control.lifecycle.states import Status
from millstream.control.metadata.database import Metadata
from millstream.control.nodes import registration
from millstream.control.nodes.adopting import Adoption
from millstream.control.nodes.claims import Claim, claim, owned_run
from millstream.control.nodes.host import DriverHost, boot_seconds
from millstream.control.nodes.leases import TERM_MS, HeldLeases
from millstream.control.nodes.lost import is_fenced, lose, tell
from millstream.control.nodes.owned import OwnedRun
from millstream.control.nodes.placing import Places, SecretsOfRun, spec_of, with_code
from millstream.control.nodes.registration import Offer
from millstream.control.nodes.reports import ReportWriter, StateData, looked
from millstream.control.nodes.requests import DriverRequests
from millstream.control.nodes.savepoint_views import with_records
from millstream.control.nodes.table import RunTable
from millstream.control.nodes.watching import Watching
from millstream.control.tracing.traces import NoTraces, Traces
from millstream.errors import ExternalFailure, MillstreamError

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
        renewing: Metadata | None = None,
        traces: Traces | None = None,
    ) -> None:
        """`renewing` is the same database over a connection of its own: renewals wait for nobody else's."""
        self._metadata, self._offer, self._host, self._places = metadata, offer, host, places
        self._state_data, self._monotonic = state_data, monotonic
        self._table = RunTable(host, secrets)
        self._leases = HeldLeases(renewing or metadata, offer, self._table.all, monotonic)
        self._traces = traces or NoTraces()
        self._adoption = Adoption(metadata, offer, host, self._table, monotonic, self._traces)
        self._watching = Watching(host, monotonic)
        self._requests = DriverRequests(monotonic)
        self._is_registered = False

    def start(self) -> None:
        """Register, and take up what an earlier process of this node left."""
        self.register()
        self._adoption.round()

    def register(self) -> None:
        """Say that the node is there; what it answers for is renewed with it."""
        self._leases.state = self._adoption.register()
        self._is_registered = True
        _log.info("node %s is there, and answers for %d runs", self._offer.id, len(self._table))

    def keep(self) -> None:
        """Renew its leases when it is time: for a thread that does nothing else."""
        if self._is_registered:
            self._leases.keep()

    def round(self) -> None:
        """One pass; a database that is away is waited for: drivers stop publishing by themselves."""
        try:
            if not self._is_registered:
                self.register()
            self._renew()
            self._write_reports()
            self._ask()
            self._watch()
            self._claim()
        except ExternalFailure as problem:
            _log.warning("the database is away: %s", problem)

    def _renew(self) -> None:
        """What it holds is held, what it lost is given up, what it should hold is taken up."""
        self._leases.renew()
        for owned in self._table.all().values():
            if owned.is_lost:
                self._give_up(owned)
                self._tell_lost(owned)
        if self._leases.state != "GONE":
            self._adoption.round()

    def _tell_lost(self, owned: OwnedRun) -> None:
        """A newer process of this node takes the runs over as they are: then no lease is lost."""
        if self._leases.state != "GONE":
            with acting(self._metadata, self._offer.actor) as act:
                tell(act, owned.id, owned.token, "lease_lost", f"node {self._offer.id} lost its lease")

    def _give_up(self, owned: OwnedRun) -> None:
        """Another owns the run: its driver here must end. What it writes meanwhile is fenced."""
        _log.warning("run %s is another's by now", owned.id)
        self._host.kill(owned.id, owned.token)
        self._forget(owned)

    def _forget(self, owned: OwnedRun) -> None:
        self._table.forget(owned)

    def _write_reports(self) -> None:
        """All reports that came, in one transaction for each run."""
        for owned in list(self._table.all().values()):
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
        with removing() as aside, acting(self._metadata, self._offer.actor) as act:
            row = self._row(act, owned)
            if is_fenced(reports):
                tell(act, owned.id, owned.token, "fenced", "its driver found a newer owner of the checkpoint")
            writer = ReportWriter(act, owned.token, known.get)
            is_mine = row is not None and writer.write(row, told)
            if is_mine and ended:
                # Before anybody can claim the next run of the job, which would begin in the same place.
                clear_after(act, run_of(act, owned.id), self._places.checkpoints, aside)
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
                if owned.id in self._table:
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

    def _ask(self) -> None:
        """Carry what people want to the drivers."""
        mine = self._table.all()
        if mine:
            with acting(self._metadata, self._offer.actor) as act:
                self._requests.carry(act, mine)
            if self._leases.state == "DRAINING":
                self._drain()

    def _drain(self) -> None:
        """The node is to be empty: every run ends as its job says a stop ends it, and starts again elsewhere."""
        for owned in self._table.all().values():
            if not owned.is_stopped:
                owned.is_stopped = True
                self._host.stop(owned.id, owned.token)

    def _watch(self) -> None:
        """Drivers that ended without a word, hang, or do not end when they should."""
        for owned, cause in self._watching.lost(list(self._table.all().values())):
            self._lose(owned, cause)

    def _lose(self, owned: OwnedRun, cause: str) -> None:
        with acting(self._metadata, self._offer.actor) as act:
            row = self._row(act, owned)
            if row is not None:
                lose(act, row, cause, is_cancelled=row.status == Status.CANCELLING)
        self._traces.send(owned.spans.ended(time.time(), error="CTL-052"))
        self._host.kill(owned.id, owned.token)
        self._forget(owned)

    def _claim(self) -> None:
        while self._leases.state == "ACTIVE" and len(self._table) < self._offer.slots:
            sent = boot_seconds()
            with acting(self._metadata, self._offer.actor) as act:
                claimed = claim(act, self._offer.id, self._offer.labels)
                spec = None if claimed is None else self._spec(act, claimed)
            if claimed is None or spec is None:
                return
            failpoint("node_claimed")
            before = self._table.get(spec.run)
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
        owned.promise(sent, TERM_MS)
        # Its lease is renewed from here on: code may take long to be unpacked, and a process to start.
        self._table.add(owned)
        try:
            self._host.launch(with_code(spec, self._places))
            failpoint("node_launched")
            self._table.connect(owned, spec.secret_names)
        except (MillstreamError, OSError) as problem:
            self._host.kill(owned.id, owned.token)
            self._forget(owned)
            with acting(self._metadata, self._offer.actor) as act:
                lose(act, claimed.run, f"its driver could not be started: {problem}", error=problem)

    def runs(self) -> Mapping[str, OwnedRun]:
        """What this node answers for now."""
        return self._table.all()

    def leave(self) -> None:
        """The node process ends; its drivers go on, and the next process of this node adopts them."""
        is_empty = self._leases.state == "DRAINING" and not self._table
        for owned in self._table.all().values():
            self._forget(owned)
        if is_empty:
            with contextlib.suppress(ExternalFailure), acting(self._metadata, self._offer.actor) as act:
                registration.leave(act, self._offer)
