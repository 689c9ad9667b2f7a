"""Fakes for the epoch protocol: sinks that remember what readers could see."""

from millstream.checkpoint.coordinator import EpochCoordinator, Identity, StagedEpoch
from millstream.plan.fingerprint import Fingerprint


class FakeSink:
    """Lives outside the process: staged and visible rows survive a crash of the coordinator."""

    def __init__(self, log, name):
        self._log, self._name = log, name
        self.staged, self.visible = {}, {}
        self.lose_reply = False

    def stage(self, epoch, attempt, rows):
        self.staged[epoch, attempt] = rows
        return {"epoch": epoch, "attempt": attempt}

    def prepare(self, epoch, messages):
        self._log.append(("prepare", self._name, epoch))
        return {"parts": [[message["epoch"], message["attempt"]] for message in messages]}

    def publish(self, epoch, transaction):
        self._log.append(("publish", self._name, epoch))
        rows = [row for part in transaction["parts"] for row in self.staged[tuple(part)]]
        assert self.visible.setdefault(epoch, rows) == rows, f"epoch {epoch} published with other rows"
        if self.lose_reply:
            self.lose_reply = False
            raise ConnectionError("the reply was lost")

    def discard(self, messages):
        self._log.append(("discard", self._name, [message["attempt"] for message in messages]))
        for message in messages:
            self.staged.pop((message["epoch"], message["attempt"]), None)

    def recover(self, durable):
        self._log.append(("recover", self._name, durable))
        for epoch, attempt in list(self.staged):
            if durable is None or epoch > durable:
                del self.staged[epoch, attempt]


FINGERPRINT = Fingerprint(whole="w", steps={"in": "1", "sum": "2"})


def identity(**changes):
    given = {
        "job": "j",
        "lineage": "l",
        "guarantee": "exactly_once",
        "fingerprint": FINGERPRINT,
        "parallelism": 2,
        "engine": "local",
    }
    return Identity(**{**given, **changes})


class World:
    """The durable outside of a job: a store and two sinks."""

    def __init__(self, store):
        self.store, self.log = store, []
        self.sinks = {name: FakeSink(self.log, name) for name in ("first", "second")}
        self.attempts = 0

    def coordinator(self, **changes):
        return EpochCoordinator(self.store, identity(**changes), self.sinks)

    def staged(self, epoch, rows=None, *, digest=None, terminal=False):
        """An epoch whose rows every sink has staged, as each attempt does anew."""
        self.attempts += 1
        rows = [f"{epoch}-{i}" for i in range(2)] if rows is None else rows
        messages = {name: [sink.stage(epoch, self.attempts, rows)] for name, sink in self.sinks.items()}
        return StagedEpoch(
            epoch=epoch,
            digest=digest or f"digest-{epoch}",
            plan={"epoch": epoch},
            planner={},
            messages=messages,
            counts={"in": {"rows_in": 2}},
            terminal=terminal,
        )

    def visible(self, name="first"):
        return dict(sorted(self.sinks[name].visible.items()))
