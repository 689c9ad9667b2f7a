"""Looks at the metadata of a service while it suffers: who owns what, since when nobody does, how long it took to go on."""

import contextlib
import threading
import time

from sqlalchemy import select

from millstream.control.act import acting
from millstream.control.lifecycle.states import FINAL, OWNED, Status, is_legal
from millstream.control.metadata.tables.nodes import lease
from millstream.control.metadata.tables.runs import execution, run_event
from millstream.errors import ExternalFailure

_LOOK_SECONDS = 0.25
REFUSALS = ("lease_lost", "fenced")
"""Told by owners that were refused: their token is an old one."""


class Sight:
    """What was last seen of one run."""

    def __init__(self, row, now):
        self.token, self.epoch, self.ownerless_since = row.token, _epoch(row), None
        self.moved_at = now


def _epoch(row):
    return (row.progress or {}).get("epoch", -1)


class Watcher:
    """A thread; `ownerless` is the longest time in which a run had no live owner while the database answered."""

    def __init__(self, metadata):
        self._metadata = metadata
        self._sights = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.problems, self.takeovers, self.adoptions = [], [], []
        self.ownerless, self.longest = 0.0, ""
        self.waiting = {}
        """Runs whose next epoch is waited for: since when, the token they had, and where the time goes."""
        self.lock = threading.Lock()

    def start(self):
        self._thread.start()

    def stop(self):
        self._over.set()
        self._thread.join(10)

    def await_epoch(self, runs, times):
        """Note how long it takes from now until each of these runs publishes again."""
        now = time.monotonic()
        with self.lock:
            for run in runs:
                self.waiting.setdefault(run, (now, times))

    def forget(self, runs):
        """Something else happened to these: what they take now says nothing."""
        with self.lock:
            for run in runs:
                self.waiting.pop(run, None)

    def _watch(self):
        while not self._over.wait(_LOOK_SECONDS):
            try:
                rows, leases = self._look()
            except ExternalFailure:
                for sight in self._sights.values():
                    sight.ownerless_since = None
                continue
            now = time.monotonic()
            for row in rows:
                self._see(row, leases, now)

    def _look(self):
        with acting(self._metadata) as act:
            rows = list(act.connection.execute(select(execution)))
            held = {
                each.name: (each.token, each.expires_at > act.now) for each in act.connection.execute(select(lease))
            }
        return rows, held

    def _see(self, row, leases, now):
        sight = self._sights.setdefault(row.execution_id, Sight(row, now))
        if row.token < sight.token:
            self.problems.append(f"the token of {row.job_name} fell from {sight.token} to {row.token}")
        token, is_live = leases.get(f"job:{row.job_id}:{row.slot_no}", (0, False))
        is_owned = row.status in FINAL or (row.status in OWNED and token == row.token and is_live)
        sight.ownerless_since = None if is_owned else sight.ownerless_since or now
        if sight.ownerless_since is not None:
            self._note_ownerless(row, now - sight.ownerless_since)
        if _epoch(row) > sight.epoch:
            self._went_on(row.execution_id, now)
        sight.token, sight.epoch = max(sight.token, row.token), _epoch(row)

    def _note_ownerless(self, row, seconds):
        if seconds > self.ownerless:
            self.ownerless = seconds
            self.longest = f"{row.job_name}, {row.status} of {row.node_id}, token {row.token}, at {time.strftime('%X')}"

    def _went_on(self, run, now):
        with self.lock:
            since, times = self.waiting.pop(run, (None, None))
        if times is not None:
            times.append(now - since)


def history_problems(metadata):
    """What the events of all runs say against the rules: illegal moves, tokens that fell, runs that came back from their end."""
    problems = []
    with acting(metadata) as act:
        events = list(act.connection.execute(select(run_event).order_by(run_event.c.execution_id, run_event.c.seq)))
    last = {}
    for event in events:
        status, token = last.get(event.execution_id, (None, 0))
        if event.to_status is not None and event.from_status is not None:
            if status is not None and event.from_status != status:
                problems.append(f"{event.execution_id} went from {event.from_status}, but was {status}")
            if not is_legal(Status(event.from_status), Status(event.to_status)):
                problems.append(f"{event.execution_id} went from {event.from_status} to {event.to_status}")
        if event.token < token and event.kind not in REFUSALS:
            problems.append(f"{event.execution_id}: the token fell from {token} to {event.token}")
        last[event.execution_id] = (event.to_status or status, max(token, event.token))
    return problems


def failures(metadata):
    """Why runs failed: instant, run, cause."""
    failed = run_event.c.to_status == "FAILED"
    with contextlib.suppress(ExternalFailure), acting(metadata) as act:
        return list(act.connection.execute(select(run_event).where(failed).order_by(run_event.c.id)))
    return []
