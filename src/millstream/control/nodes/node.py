"""A node: its loop registers, keeps its leases, asks its drivers, writes down what they report, and claims new runs."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import Row

from millstream.checkpoint.failpoint import failpoint
from millstream.control.act import Act, acting
from millstream.control.dispatcher.keeping import clear_after
from millstream.control.dispatcher.stopping import run_of
from millstream.control.lifecycle.states import Status
from millstream.control.metadata.database import Metadata
from millstream.control.nodes import registration
from millstream.control.nodes.claims import TERM, Claim, claim, owned_runs, renew
from millstream.control.nodes.host import DriverHost
from millstream.control.nodes.lost import is_fenced, lose, tell
from millstream.control.nodes.owned import OwnedRun
from millstream.control.nodes.placing import Places, SecretsOfRun, spec_of, with_code
from millstream.control.nodes.registration import NodeState, Offer
from millstream.control.nodes.reports import ReportWriter, StateData
from millstream.control.nodes.requests import DriverRequests
from millstream.control.nodes.watching import Watching
from millstream.errors import ExternalFailure, MillstreamError

RENEW_SECONDS = 5.0
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
    ) -> None:
        self._metadata, self._offer, self._host, self._places = metadata, offer, host, places
        self._secrets, self._state_data, self._monotonic = secrets, state_data, monotonic
        self._runs: dict[str, OwnedRun] = {}
        self._watching = Watching(host, monotonic)
        self._requests = DriverRequests(monotonic)
        self._renewed_at = float("-inf")
        self._state: NodeState = "ACTIVE"
        self.lock = threading.Lock()
        """Guards the table of runs for those who look."""

    def start(self) -> None:
        """Register, and take up what an earlier process of this node left."""
        with acting(self._metadata, self._actor) as act:
            registration.register(act, self._offer, alone=self._metadata.is_sqlite)
            failpoint("node_registered")
            for run in owned_runs(act, self._offer.id):
                self._adopt(act, run)

    @property
    def _actor(self) -> str:
        return f"node:{self._offer.id}"

    def _adopt(self, act: Act, run: Row[Any]) -> None:
        """A driver that outlived the process that started it is connected to again."""
        owned = OwnedRun.of(run, run.token, self._monotonic())
        words = self._host.last_words(owned.id, owned.token, after=owned.seq)
        if not words and not self._host.is_alive(owned.id, owned.token):
            lose(act, run, "its driver was gone when the node came back")
            return
        for report in words:
            owned.take(report)
        self._connect(owned)
        failpoint("node_adopted")

    def _connect(self, owned: OwnedRun) -> None:
        owned.link = self._host.link(owned.id, owned.token, from_seq=owned.seq, on_report=owned.take)
        with self.lock:
            self._runs[owned.id] = owned

    def round(self) -> None:
        """One pass; a database that is away is waited for: drivers stop publishing by themselves."""
        try:
            self._renew()
            self._write_reports()
            self._ask()
            self._watch()
            self._claim()
        except ExternalFailure as problem:
            _log.warning("the database is away: %s", problem)

    def _renew(self) -> None:
        """Heartbeat and all leases in one transaction; the time that is left counts from before it was sent."""
        sent = self._monotonic()
        if sent - self._renewed_at < RENEW_SECONDS:
            return
        held = {owned.lease: owned.token for owned in self._runs.values()}
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
        left = int((TERM.total_seconds() - (self._monotonic() - sent)) * 1000)
        for owned in list(self._runs.values()):
            if owned.lease not in kept:
                self._give_up(owned)
            elif owned.link is not None:
                owned.link.renewed(left)

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
            if not reports:
                continue
            with acting(self._metadata, self._actor) as act:
                row = next((each for each in owned_runs(act, self._offer.id) if each.execution_id == owned.id), None)
                goes_on = False
                if is_fenced(reports):
                    tell(act, owned.id, owned.token, "fenced", "its driver found a newer owner of the checkpoint")
                if row is not None and row.token == owned.token:
                    writer = ReportWriter(act, owned.token, self._state_data(owned.id, owned.token))
                    goes_on = writer.write(row, reports)
            failpoint("node_reported")
            owned.written(reports)
            if not goes_on:
                self._forget(owned)
                with acting(self._metadata, self._actor) as act:
                    clear_after(act, run_of(act, owned.id), self._places.checkpoints)

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
            with acting(self._metadata, self._actor) as act:
                row = next((each for each in owned_runs(act, self._offer.id) if each.execution_id == owned.id), None)
                if row is not None and row.token == owned.token:
                    lose(act, row, cause, is_cancelled=row.status == Status.CANCELLING)
            self._host.kill(owned.id, owned.token)
            self._forget(owned)

    def _claim(self) -> None:
        while self._state == "ACTIVE" and len(self._runs) < self._offer.slots:
            with acting(self._metadata, self._actor) as act:
                claimed = claim(act, self._offer.id, self._offer.labels)
                spec = None if claimed is None else spec_of(act, claimed.run, claimed.token, self._places)
            if claimed is None or spec is None:
                return
            failpoint("node_claimed")
            self._launch(claimed, spec)

    def _launch(self, claimed: Claim, spec: Any) -> None:
        owned = OwnedRun.of(claimed.run, claimed.token, self._monotonic())
        try:
            values = self._secrets(claimed.run.job_id, spec.secret_names) if spec.secret_names else {}
            self._host.launch(with_code(spec, self._places))
        except (MillstreamError, OSError) as problem:
            with acting(self._metadata, self._actor) as act:
                lose(act, claimed.run, f"its driver could not be started: {problem}")
            return
        failpoint("node_launched")
        self._connect(owned)
        assert owned.link is not None, "it was connected just now"
        if values:
            owned.link.secrets(values)
        owned.link.renewed(int(TERM.total_seconds() * 1000))

    def runs(self) -> Mapping[str, OwnedRun]:
        """What this node answers for now."""
        with self.lock:
            return dict(self._runs)

    def leave(self) -> None:
        """The node process ends; its drivers go on, and the next process of this node adopts them."""
        for owned in list(self._runs.values()):
            self._forget(owned)
