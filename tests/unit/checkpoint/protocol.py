"""The outside of a job for tests of the epoch protocol: a store that keeps a record, sinks, and the owners of a checkpoint.

The coordinator, the head and the participants are the real ones. Whatever touches the outside first passes a `place`; a
process can be stopped or ended there, so every order of two owners can be played.
"""

import dataclasses
import datetime as dt
from collections import Counter

import msgspec
from fake_sinks import Committer, Directory, Source, Table
from stepping import place

from millstream.checkpoint import coordinator as coordinator_module
from millstream.checkpoint.coordinator import EpochCoordinator, Identity, StagedEpoch
from millstream.checkpoint.head import HEAD, Head, HeadKeeper, Origin, decode_head
from millstream.checkpoint.manifest import decode_manifest, epoch_of
from millstream.checkpoint.stores.memory import MemoryStore
from millstream.errors import ExternalFailure, Fenced
from millstream.jobmaster.participants import SinkParticipant, SourceParticipant
from millstream.model.ids import Epoch
from millstream.plan.fingerprint import Fingerprint

FINGERPRINT = Fingerprint(whole="w", steps={"in": "1", "sum": "2"})


class RecordingStore(MemoryStore):
    """Knows every head it ever had."""

    def __init__(self):
        super().__init__()
        self.heads = []

    def swap(self, name, expected, content):
        done = super().swap(name, expected, content)
        if done and name == HEAD:
            self.heads.append(decode_head(content))
        return done


class Link:
    """The store as one owner reaches it."""

    def __init__(self, store, world):
        self._store, self._world = store, world

    def _call(self, what, *arguments):
        place(f"store.{what}")
        self._world.fail(f"before {what}")
        found = getattr(self._store, what)(*arguments)
        place(f"store.{what} done")
        self._world.fail(what)
        return found

    def create(self, name, content):
        return self._call("create", name, content)

    def swap(self, name, expected, content):
        return self._call("swap", name, expected, content)

    def delete(self, name):
        return self._call("delete", name)

    def read(self, name):
        return self._store.read(name)

    def names(self, prefix):
        return self._store.names(prefix)


@dataclasses.dataclass
class Savepoint:
    """A point that a new lineage can start from."""

    id: str
    history: list
    position: int


class Owner:
    """One run: takes the head, fences, recovers, and works on. `is_watchful` says whether it notices being replaced."""

    def __init__(self, world, *, savepoint=None, newer="truncate", is_watchful=False, retained=50):
        world.tokens += 1
        self.world, self.token, self.is_watchful, self.retained = world, world.tokens, is_watchful, retained
        self._savepoint, self._newer = savepoint, newer
        self.link = Link(world.store, world)
        self.coordinator, self.last_staged = None, None

    def check(self):
        if self.is_watchful and self.world.tokens > self.token:
            raise Fenced("the lease is lost", found=self.token)

    def start(self, check=lambda newest: None):
        """The order of a run's start: the head, lineages before this one, then fences and recovery."""
        place("leased")
        while not self._took_over():
            pass
        place("lineage_raised")
        origin = self.keeper.current.origin
        if self.keeper.current.epoch is None and origin.starts_from_earlier:
            for committer in self.committers.values():
                committer.fence()
                committer.succeed(origin.closes, origin.newer_output)
        sinks = {name: SinkParticipant("fake", committer) for name, committer in self.committers.items()}
        participants = {"in": SourceParticipant("fake", Source(self.world, self.lineage)), **sinks}
        coordinator = EpochCoordinator(
            self.link, self.keeper, self.identity(), participants, self, retained=self.retained
        )
        newest = coordinator.recover(check)
        self.coordinator = coordinator
        return newest

    def _took_over(self):
        """Move the head; an earlier owner may have moved it one last time meanwhile."""
        self.keeper = HeadKeeper(self.link)
        head, is_new = self._chosen(self.keeper.head)
        self.lineage, origin = head.lineage, head.origin
        self.committers = {name: Committer(self.world, name, self.lineage, self.token) for name in self.world.tables}
        if is_new and origin.starts_from_earlier and origin.newer_output == "refuse":
            for committer in self.committers.values():
                committer.check_newer(origin.history)
        try:
            self.keeper.move(head)
        except Fenced:
            if HeadKeeper(self.link).current.token >= self.token:
                raise
            self.world.events["looked at the head again"] += 1
            return False
        return True

    def _chosen(self, found):
        if found is not None and (self._savepoint is None or found.origin.savepoint == self._savepoint.id):
            return msgspec.structs.replace(found, token=self.token), False
        world = self.world
        lineage = f"lineage{self.token}"
        world.bases[lineage] = 0 if self._savepoint is None else self._savepoint.position
        if self._savepoint is None:
            return Head(job="j", lineage=lineage, token=self.token), True
        origin = Origin(
            savepoint=self._savepoint.id,
            history=self._savepoint.history,
            newer_output=self._newer,
            replaced=[] if found is None else [*found.origin.replaced, found.lineage],
        )
        return Head(job="j", lineage=lineage, token=self.token, origin=origin), True

    def identity(self):
        return Identity(
            job="j",
            lineage=self.lineage,
            token=self.token,
            guarantee="exactly_once",
            fingerprint=FINGERPRINT,
            parallelism=2,
            engine="local",
            depth=1,
        )

    @property
    def durable(self):
        epoch = self.keeper.current.epoch
        return -1 if epoch is None else epoch

    def epoch(self, number=None, **changes):
        """Stage and commit an epoch: the next, or one given."""
        number = self.durable + 1 if number is None else number
        self.coordinator.begin(Epoch(number))
        place("begun")
        self.last_staged = self.staged(number, **changes)
        return self.coordinator.commit(self.last_staged)

    def repeat(self):
        """Hand the coordinator the very same reports once more."""
        self.coordinator.begin(self.last_staged.epoch)
        return self.coordinator.commit(self.last_staged)

    def staged(self, number, **changes):
        """What the tasks of an epoch report; every attempt stages anew."""
        world = self.world
        world.attempts += 1
        position = world.bases[self.lineage] + number
        rows = changes.pop("rows", None) or rows_at(position)
        messages = {
            name: [committer.stage(number, world.attempts, rows)] for name, committer in self.committers.items()
        }
        given = {
            "epoch": Epoch(number),
            "digest": f"digest-{position}",
            "follows": f"digest-{position - 1}",
            "kind": "periodic",
            "plan": {"epoch": number},
            "planner": {},
            "messages": {"in": [position + 1], **messages},
            "counts": {"in": {"rows_in": len(rows)}},
        }
        return StagedEpoch(**{**given, **changes})


def rows_at(position):
    """The oracle: what the epoch at a position of the input gives."""
    return [f"{position}-{number}" for number in range(position % 3)]


class World:
    """The durable outside of a job."""

    def __init__(self, store=None):
        self.store = store or RecordingStore()
        self.events, self.log, self.faults = Counter(), [], []
        self.tables = {"first": Table(self.events), "second": Directory(self.events)}
        self.tokens = self.attempts = 0
        self.bases = {}

    def owner(self, **given):
        """A run that has started."""
        owner = Owner(self, **given)
        owner.start()
        return owner

    def fail(self, what):
        """Fail if that was asked for: after the work the reply is lost, before it nothing was done."""
        if what in self.faults:
            self.faults.remove(what)
            self.events[f"failed: {what}"] += 1
            raise ExternalFailure(f"{what} failed", code="TEST-LOST")

    @property
    def head(self):
        content = self.store.read(HEAD)
        return None if content is None else decode_head(content)

    def visible(self, name="first", lineage=None):
        return self.tables[name].visible(lineage or self.head.lineage)

    def savepoint(self):
        """A savepoint at the newest epoch; none unless every sink shows it."""
        head = self.head
        if head is None or head.epoch is None:
            return None
        if any((head.lineage, head.epoch) not in table.markers for table in self.tables.values()):
            return None
        return Savepoint(
            id=f"savepoint{self.tokens}-{head.lineage}-{head.epoch}",
            history=[*head.origin.history, (head.lineage, head.epoch)],
            position=self.bases[head.lineage] + head.epoch + 1,
        )

    # Invariants.

    def check(self):
        """I1, I2 and I4, and that the recovery line can always be read."""
        durable = self._check_heads()
        for table in self.tables.values():
            assert table.stale == [], f"a stale write was accepted: {table.stale}"
            lineages = {lineage for lineage, _ in table.markers} | {row[0] for row in table.rows}
            for lineage in lineages:
                self._check_lineage(table, lineage, durable.get(lineage, -1))

    def _check_heads(self):
        durable, token = {}, 0
        for head in self.store.heads:
            epoch = -1 if head.epoch is None else head.epoch
            assert head.token >= token, "the token of the head fell"
            assert epoch >= durable.get(head.lineage, -1), "a durable epoch was given up"
            token, durable[head.lineage] = head.token, epoch
        head = self.head
        if head is not None and head.epoch is not None:
            content = self.store.read(head.manifest)
            assert content is not None, f"the head names {head.manifest}, which is gone"
            assert decode_manifest(content, name="m").epoch == head.epoch
        return durable

    def _check_lineage(self, table, lineage, durable):
        markers = {epoch: marker for (other, epoch), marker in table.markers.items() if other == lineage}
        assert sorted(markers) == list(range(len(markers))), f"markers of {lineage} have gaps: {sorted(markers)}"
        assert max(markers, default=-1) <= durable, "an epoch is visible that is not durable"
        tokens = [markers[epoch].token for epoch in sorted(markers)]
        assert tokens == sorted(tokens), f"tokens fall: {tokens}"
        for epoch, rows in table.visible(lineage).items():
            expected = rows_at(self.bases[lineage] + epoch)
            assert sorted(rows) == expected, f"epoch {epoch} of {lineage} shows {rows} instead of {expected}"
            assert epoch in markers, f"epoch {epoch} of {lineage} has rows and no marker"

    def check_all_shown(self):
        """After healing: every sink shows exactly what is durable, of the newest lineage and of those before it."""
        self.check()
        head = self.head
        for table in self.tables.values():
            assert list(table.visible(head.lineage)) == list(range(head.epoch + 1)), "a durable epoch is not shown"
            for lineage, epoch in head.origin.history:
                assert list(table.visible(lineage))[: epoch + 1] == list(range(epoch + 1))

    def check_rows_are_the_oracle(self):
        """Over all lineages, when none left output beyond the next one's start: each position once."""
        head = self.head
        last = self.bases[head.lineage] + head.epoch
        expected = Counter(row for position in range(last + 1) for row in rows_at(position))
        for table in self.tables.values():
            assert Counter(row for _, _, row in table.rows) == expected

    def heal(self):
        """Nothing fails any more and a new owner runs an epoch: then everything durable is shown."""
        self.faults.clear()
        owner = self.owner()
        owner.epoch()
        self.check_all_shown()
        for table in self.tables.values():
            # What a late owner of a closed lineage stages stays, unseen; here is nothing of the sort.
            left = {key for key in table.staged if key[0] == owner.lineage and key[:2] not in table.markers}
            assert not left, "staged rows are left"
        return owner


class Clock:
    """The coordinator's clock, which stands still: a run repeats exactly."""

    UTC = dt.UTC

    class datetime:
        @staticmethod
        def now(zone):
            return dt.datetime(2024, 1, 1, tzinfo=zone)


def stop_at_failpoints(monkeypatch):
    """Let the failpoints of the coordinator be places too, and its clock stand still."""
    monkeypatch.setattr(coordinator_module, "failpoint", place)
    monkeypatch.setattr(coordinator_module, "dt", Clock)


def stored_manifests(world):
    """(epoch, token) of every stored manifest of the newest lineage."""
    names = world.store.names(f"manifests/{world.head.lineage}/")
    return [(epoch_of(name), int(name.rpartition("-")[2].removesuffix(".json"))) for name in names]
