"""Who owns a checkpoint: the lease, the lineage and the fences of a run, taken in the order of safety."""

from __future__ import annotations

from millstream.checkpoint.failpoint import failpoint
from millstream.checkpoint.head import HeadKeeper, newest_token, refuse_headless
from millstream.checkpoint.lease import LEASE, Lease, LeaseRecord, acquire, decode_lease
from millstream.checkpoint.savepoint import read_savepoint
from millstream.checkpoint.stores.base import ManifestStore
from millstream.contract.sink import SinkCommitter
from millstream.errors import Fenced
from millstream.jobmaster.connectors import open_sinks
from millstream.jobmaster.resume import check_restore
from millstream.jobmaster.start import Beginning, begin
from millstream.plan.deployment import DeploymentPlan
from millstream.plan.start import Start
from millstream.runtime.closing import OpenedParts


class Ownership:
    """The lease is taken, then the head is moved to this owner, then earlier lineages are closed in every sink.

    What it opens is closed with the other parts of the run, also when the start is refused half-way.
    """

    beginning: Beginning
    sinks: dict[str, SinkCommitter]
    replaced: LeaseRecord | None
    """The lease of an earlier owner that had not given it back."""

    def __init__(
        self, store: ManifestStore, deployment: DeploymentPlan, engine: str, start: Start, parts: OpenedParts
    ) -> None:
        self._store, self._deployment, self._engine, self._start = store, deployment, engine, start
        self.is_settled = False
        """Whether the owner leaves with every durable epoch published."""
        self._opened = OpenedParts()
        self.lease = self._leased()
        parts.add("the lease", lambda: self.lease.release(settled=self.is_settled))
        parts.add("the sinks", self._opened.close)
        failpoint("leased")
        self.keeper = self._taken_over()

    @property
    def lineage(self) -> str:
        """The lineage of the run."""
        return self.beginning.head.lineage

    @property
    def history(self) -> list[tuple[str, int]]:
        """The earlier lineages that count."""
        return self.beginning.head.origin.history

    def _leased(self) -> Lease:
        """One owner at a time. Tokens rise behind the head, should the lease be lost, and behind those of a savepoint."""
        above = newest_token(self._store)
        if self._start.savepoint is not None:
            above = max(above, read_savepoint(self._start.savepoint).token)
        before = self._store.read(LEASE)
        lease = acquire(self._store, term=self._deployment.epochs.lease_term, token_above=above)
        # A lease that `acquire` did not refuse can be read.
        earlier = None if before is None else decode_lease(before)
        self.replaced = None if earlier is None or earlier.is_released else earlier
        return lease

    def _taken_over(self) -> HeadKeeper:
        """Move the head to this owner. An earlier owner may move it one last time meanwhile: then look again."""
        while True:
            keeper = HeadKeeper(self._store, ignore_damage=self._start.ignore_state_once)
            if keeper.head is None and not self._start.ignore_state_once:
                refuse_headless(self._store)
            self._begin(begin(keeper.head, self._deployment.name, self.lease.token, self._start))
            try:
                keeper.move(self.beginning.head)
            except Fenced:
                self._opened.close()
                newer = HeadKeeper(self._store).head
                if newer is None or newer.token >= self.lease.token:
                    raise
                continue
            failpoint("lineage_raised")
            self._succeed()
            return keeper

    def _begin(self, beginning: Beginning) -> None:
        """Everything that may be refused before the head moves."""
        self.beginning = beginning
        if beginning.savepoint is not None:
            check_restore(self._deployment, beginning.savepoint, self._engine, self._start)
        self.sinks = open_sinks(self._deployment, beginning.head.lineage, self.lease.token, self._opened)
        origin = beginning.head.origin
        if beginning.is_new and origin.starts_from_earlier and origin.newer_output == "refuse":
            for sink in self.sinks.values():
                sink.check_newer(origin.history)

    def _succeed(self) -> None:
        """A new lineage closes the earlier ones in every sink."""
        head = self.beginning.head
        if head.epoch is None and head.origin.starts_from_earlier:
            for sink in self.sinks.values():
                sink.fence()
                sink.succeed(head.origin.closes, head.origin.newer_output)
