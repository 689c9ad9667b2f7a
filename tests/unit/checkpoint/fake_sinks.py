"""Sinks of the epoch protocol that outlive every process, and one owner's way to them."""

import dataclasses

from stepping import place

from millstream.errors import CheckpointRefused, Fenced

CLOSED = 2**62
"""The token of a lineage that another one has succeeded."""


@dataclasses.dataclass
class Marker:
    token: int
    digest: str
    rows: int


class Table:
    """A sink that outlives every process. Guards named in `off` are switched off."""

    off = frozenset()

    def __init__(self, events):
        self._events = events
        self.fences, self.staged, self.markers, self._shown = {}, {}, {}, []
        self.highest, self.stale = {}, []
        """The highest token seen of each lineage whatever the guards do, and the writes below it."""

    def enter(self, lineage, token, *, is_start=False):
        """What every transaction does first."""
        if token < self.highest.get(lineage, 0):
            if "fence" not in self.off and token < self.fences.get(lineage, 0):
                self._events["fenced by a sink"] += 1
                raise Fenced("another owner took over", found=token)
            self.stale.append((lineage, token))
        self.highest[lineage] = max(token, self.highest.get(lineage, 0))
        if "raise" not in self.off or not is_start:
            self.fences[lineage] = max(token, self.fences.get(lineage, 0))

    def publish(self, lineage, token, epoch, transaction):
        self.enter(lineage, token)
        marker = Marker(token, transaction["digest"], transaction["rows"])
        found = self.markers.get((lineage, epoch))
        if found is not None and "marker" not in self.off:
            self._events["published twice"] += 1
            if found.digest != marker.digest and "digest" not in self.off:
                raise CheckpointRefused("other rows", code="SINK-001")
            return
        rows = [row for part in transaction["parts"] for row in self.staged.get((lineage, epoch, part), [])]
        if len(rows) != transaction["rows"] and "count" not in self.off:
            raise CheckpointRefused("staged rows are gone", code="SINK-009")
        if "transaction" in self.off:  # the marker and the rows in two transactions
            self.markers[lineage, epoch] = marker
            place("between marker and rows")
        self.show(lineage, epoch, transaction["parts"])
        self.markers[lineage, epoch] = marker

    def show(self, lineage, epoch, parts):
        """Copy the staged rows to where readers look."""
        self._shown += [(lineage, epoch, row) for part in parts for row in self.staged.get((lineage, epoch, part), [])]

    @property
    def rows(self):
        """What readers see: lineage, epoch and row."""
        return list(self._shown)

    def newer(self, lineage, history):
        """Epochs of other lineages beyond the history."""
        last = dict(history)
        return [(other, epoch) for other, epoch in self.markers if other != lineage and epoch > last.get(other, -1)]

    def succeed(self, lineage, token, history, newer):
        self.enter(lineage, token)
        beyond = self.newer(lineage, history)
        if newer == "refuse" and any(self.markers[each].rows for each in beyond):
            raise CheckpointRefused("newer output", code="SINK-003")
        others = {*self.fences, *dict(history), *(other for other, _ in self.markers)} - {lineage}
        for other in others:
            self.fences[other] = self.highest[other] = CLOSED
        if newer == "truncate":
            self._shown = [each for each in self._shown if each[:2] not in beyond]
            self.markers = {each: marker for each, marker in self.markers.items() if each not in beyond}
        for key in [key for key in self.staged if key[0] != lineage and key not in self._kept()]:
            del self.staged[key]

    def _kept(self):
        """Staged parts that readers still need."""
        return set()

    def drop(self, lineage, token, durable):
        """Staged rows that nobody will publish: beyond the durable epoch, or of a published one."""
        self.enter(lineage, token)
        for key in [key for key in self.staged if key[0] == lineage]:
            if (durable is None or key[1] > durable or key[:2] in self.markers) and key not in self._kept():
                self._events["orphan dropped"] += 1
                del self.staged[key]

    def visible(self, lineage):
        """Per published epoch its rows."""
        found = {epoch: [] for other, epoch in sorted(self.markers) if other == lineage}
        for other, epoch, row in self.rows:
            if other == lineage:
                found.setdefault(epoch, []).append(row)
        return found


class Directory(Table):
    """A sink whose readers follow lists of staged parts, so that a part removed too early is a loss."""

    def show(self, lineage, epoch, parts):
        self._shown.append((lineage, epoch, parts))

    def _kept(self):
        return {(lineage, epoch, part) for lineage, epoch, parts in self._shown for part in parts}

    @property
    def rows(self):
        return [
            (lineage, epoch, row)
            for lineage, epoch, parts in self._shown
            for part in parts
            for row in self.staged.get((lineage, epoch, part), [])
        ]


class Committer:
    """One owner's way to a table."""

    def __init__(self, world, name, lineage, token):
        self._world, self._name, self._lineage, self._token = world, name, lineage, token
        self._table = world.tables[name]

    def _call(self, what, work):
        place(f"sink.{what}")
        self._world.fail(f"before {what}")
        work()
        self._world.log.append((what, self._name, self._token))
        place(f"sink.{what} done")
        self._world.fail(what)

    def fence(self):
        self._call("fence", lambda: self._table.enter(self._lineage, self._token, is_start=True))

    def check_newer(self, history):
        if any(self._table.markers[each].rows for each in self._table.newer(self._lineage, history)):
            raise CheckpointRefused("newer output", code="SINK-003")

    def succeed(self, history, newer):
        self._call("succeed", lambda: self._table.succeed(self._lineage, self._token, history, newer))

    def stage(self, epoch, attempt, rows):
        place("sink.stage")
        self._table.staged[self._lineage, epoch, attempt] = rows
        return {"epoch": epoch, "attempt": attempt, "rows": rows}

    def prepare(self, epoch, messages):
        self._world.log.append(("prepare", self._name, epoch))
        rows = [row for message in messages for row in message["rows"]]
        parts = [message["attempt"] for message in messages]
        return {"digest": repr(rows), "rows": len(rows), "parts": parts}

    def publish(self, epoch, transaction):
        def work():
            self._table.publish(self._lineage, self._token, epoch, transaction)
            self._world.log.append(("published", self._name, epoch))

        self._call("publish", work)

    def discard(self, messages):
        def work():
            for message in messages:
                self._table.staged.pop((self._lineage, message["epoch"], message["attempt"]), None)

        self._call("discard", work)

    def recover(self, durable):
        self._call("recover", lambda: self._table.drop(self._lineage, self._token, durable))

    def close(self):
        pass


class Source:
    """Acknowledged positions are forgotten by the broker: whatever they cover must be published by then."""

    def __init__(self, world, lineage):
        self._world, self._lineage = world, lineage

    def acknowledge(self, position):
        self._world.fail("before acknowledge")
        epoch = position - self._world.bases[self._lineage] - 1
        for table in self._world.tables.values():
            published = (self._lineage, epoch) in table.markers or table.highest.get(self._lineage) == CLOSED
            assert published, f"epoch {epoch} is acknowledged, but a sink does not show it"
        self._world.log.append(("acknowledge", "in", position))
