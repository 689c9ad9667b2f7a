"""Who owns a checkpoint: the lease, the lineage and the fences of a run, taken in the order of safety."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

import msgspec

from millstream.api.running.control import RunControl
from millstream.checkpoint.failpoint import failpoint
from millstream.checkpoint.head import Head, HeadKeeper, newest_token, refuse_headless
from millstream.checkpoint.lease import Lease, acquire
from millstream.checkpoint.lease_record import LEASE, LeaseRecord, decode_lease
from millstream.checkpoint.savepoint import read_savepoint
from millstream.checkpoint.staged import Identity
from millstream.checkpoint.stores.base import ManifestStore
from millstream.checkpoint.stores.memory import MemoryStore
from millstream.checkpoint.stores.open import open_store
from millstream.contract.sink import SinkCommitter
from millstream.errors import Fenced
from millstream.jobmaster.connectors import open_sinks, uids_of
from millstream.jobmaster.past_runs import carry_over, followed_run, forget_runs
from millstream.jobmaster.resume import check_params, check_restore
from millstream.jobmaster.start import Asked, StartingPoint, starting_point
from millstream.model.guarantee import Guarantee
from millstream.model.params import stored_params
from millstream.plan.deployment import DeploymentPlan
from millstream.plan.start import Start
from millstream.runtime.closing import OpenedParts
from millstream.runtime.operators.layouts import layouts_of


class Outrun(StrEnum):
    """What an owner does that could not move the head to itself."""

    LOOK_AGAIN = "look_again"
    """An earlier owner moved it one last time: what it left is what this one starts from."""
    GIVE_UP = "give_up"
    """A later owner has it, or it is gone."""


def outrun(stored: Head | None, token: int) -> Outrun:
    """Decide by the head that is there now and the token of the owner that could not move it."""
    return Outrun.GIVE_UP if stored is None or stored.token >= token else Outrun.LOOK_AGAIN


class Permission:
    """Whether a run may write now: whoever watches over it holds it back, or another owner has the checkpoint."""

    def __init__(self, lease: Lease, control: RunControl) -> None:
        self._lease, self._control = lease, control

    def check(self) -> None:
        """Wait while the run is held back, then raise unless the lease is held: it may have been lost meanwhile."""
        self._control.await_leave()
        self._lease.check()


class Ownership:
    """The lease is taken, then the head is moved to this owner, then earlier lineages are closed in every sink.

    What it opens is closed with the other parts of the run, also when the start is refused half-way.
    """

    point: StartingPoint
    sinks: dict[str, SinkCommitter]
    replaced: LeaseRecord | None
    """The lease of an earlier owner that had not given it back."""

    def __init__(
        self,
        store: ManifestStore,
        deployment: DeploymentPlan,
        engine: str,
        start: Start,
        parts: OpenedParts,
        *,
        staging: str,
    ) -> None:
        self._store, self._deployment, self._engine, self._start = store, deployment, engine, start
        self._staging = staging
        self._root = None if deployment.checkpoint is None else Path(deployment.checkpoint)
        self._opened = OpenedParts()
        self.lease = self._leased()
        self.is_settled = self._is_published
        """Whether the owner leaves with every durable epoch published; one that is refused leaves it as it was."""
        parts.add("the lease", lambda: self.lease.release(settled=self.is_settled))
        parts.add("the sinks", self._opened.close)
        failpoint("leased")
        self.keeper = self._taken_over()

    @property
    def lineage(self) -> str:
        """The lineage of the run."""
        return self.point.head.lineage

    @property
    def _is_published(self) -> bool:
        """Whether the owner before left with every durable epoch published."""
        return self._earlier is not None and self._earlier.is_released and self._earlier.is_settled

    @property
    def makes_way(self) -> bool:
        """Whether another run is to begin behind this one, as soon as it is complete and published."""
        is_own = self.point.is_new or self.point.head.origin.run.id == self._start.run
        return self._start.carry is not None and not is_own

    @property
    def history(self) -> list[tuple[str, int]]:
        """The earlier lineages that count."""
        return self.point.head.origin.history

    def identity(self) -> Identity:
        """What every manifest of this owner says about the job."""
        plan = self._deployment.plan
        guarantee = plan.graph.requirements.guarantee
        return Identity(
            job=self._deployment.name,
            lineage=self.lineage,
            token=self.lease.token,
            guarantee=guarantee,
            mode=self._deployment.mode,
            run=msgspec.structs.replace(self.point.head.origin.run, params=stored_params(self._deployment.params)),
            fingerprint=plan.fingerprint,
            engine=self._engine,
            parallelism=plan.parallelism,
            depth=plan.depth,
            requirements={"guarantee": guarantee, "key_groups": plan.key_groups},
            operators={uid: msgspec.to_builtins(layout) for uid, layout in layouts_of(self._deployment).items()},
            uids=uids_of(self._deployment),
            history=self.history,
        )

    def _leased(self) -> Lease:
        """One owner at a time. Tokens rise behind the head, should the lease be lost, and behind those of a savepoint."""
        above = newest_token(self._store)
        if self._start.savepoint is not None:
            above = max(above, read_savepoint(self._start.savepoint).token)
        before = self._store.read(LEASE)
        term, claim = self._deployment.epochs.lease_term, self._start.claim
        lease = acquire(self._store, term=term, token_above=above, claim=claim)
        # A lease that `acquire` did not refuse can be read.
        self._earlier = earlier = None if before is None else decode_lease(before)
        self.replaced = None if earlier is None or earlier.is_released else earlier
        return lease

    def _taken_over(self) -> HeadKeeper:
        """Move the head to this owner. An earlier owner may move it one last time meanwhile: then look again."""
        while True:
            keeper = HeadKeeper(self._store, ignore_damage=self._start.ignore_state_once)
            if keeper.head is None and not self._start.ignore_state_once:
                refuse_headless(self._store)
            stored = None if keeper.head is None else keeper.head.origin
            asked = self._asked(keeper.head)
            self._begin_at(starting_point(keeper.head, self._deployment.name, self.lease.token, self._start, asked))
            try:
                keeper.move(self.point.head)
            except Fenced:
                self._opened.close()
                if outrun(HeadKeeper(self._store).head, self.lease.token) is Outrun.GIVE_UP:
                    raise
                continue
            failpoint("lineage_raised")
            self._succeed()
            if self._root is not None and asked.follows and stored is not None:
                # The run that is followed has taken over what it needed of those before it.
                forget_runs(self._store, self._root, [lineage for lineage, _ in stored.before_run])
            return keeper

    def _asked(self, stored: Head | None) -> Asked:
        """What the run is given, and whether it begins behind a complete one, whose heritage is kept before the head moves."""
        params = stored_params(self._deployment.params)
        last = followed_run(self._store, stored, self._start) if self._is_published else None
        if last is None or stored is None or self._root is None:
            return Asked(params=params)
        return Asked(params=params, follows=True, carried=carry_over(self._root, stored, last, self._start))

    def _begin_at(self, point: StartingPoint) -> None:
        """Everything that may be refused before the head moves."""
        self.point = point
        if not point.is_new and point.head.epoch is None:
            check_params(self._deployment, point.head.origin.run)
        if point.savepoint is not None:
            check_restore(self._deployment, point.savepoint, self._engine, self._start)
        self.sinks = open_sinks(self._deployment, self._staging, head=point.head, lease=self.lease, parts=self._opened)
        if point.refuses_newer_output:
            for sink in self.sinks.values():
                sink.check_newer(point.head.origin.history)

    def _succeed(self) -> None:
        """A new lineage closes the earlier ones in every sink."""
        if self.point.closes_earlier:
            origin = self.point.head.origin
            for sink in self.sinks.values():
                sink.fence()
                sink.succeed(origin.closes, origin.newer_output)


def store_of(deployment: DeploymentPlan) -> ManifestStore:
    """Where a run keeps head, lease and manifests. Best effort keeps nothing that outlives the run."""
    if deployment.checkpoint is None or deployment.plan.graph.requirements.guarantee is Guarantee.BEST_EFFORT:
        return MemoryStore()
    return open_store(deployment.manifests or Path(deployment.checkpoint) / "millstream")
