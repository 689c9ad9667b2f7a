"""`python -m tests.chaos.control`: run jobs on a service whose processes are killed and paused, and judge what comes out."""

import argparse
import contextlib
import json
import sys
import tempfile
import time
from pathlib import Path

from sqlalchemy import select
from tests.chaos.control.cluster import Cluster
from tests.chaos.control.jobs import BOUNDED_ROWS, ChaosJob, jobs_of, prepared
from tests.chaos.control.nemesis import AWAY_SECONDS, PAUSE_SECONDS, ControlNemesis
from tests.chaos.control.watcher import Watcher, failures, history_problems

from millstream.control.act import acting
from millstream.control.metadata.tables.runs import checkpoint

_MOST_OWNERLESS = 60.0
_BOUNDED_AT_ONCE = 2
_GOES_ON_SECONDS = 600.0
"""A JVM may take minutes to start beside everything else; who owns a run, and for how long nobody does, is judged apart."""


class ControlChaos:
    """One run of the harness: jobs, faults, judgement."""

    def __init__(
        self,
        folder,
        *,
        seed,
        deck,
        endless=8,
        spark=0,
        pause=PAUSE_SECONDS,
        away=AWAY_SECONDS,
        nodes=2,
        reach=0,
        when_up=False,
    ):
        self._folder, self._seed, self._deck, self._nodes, self._reach = folder, seed, deck, nodes, reach
        self._when_up = when_up
        self._pause, self._away = pause, away
        self._size = {"endless": endless, "spark": spark}
        self._bounded, self._judged = [], {"lost": 0, "doubled": 0, "rows": 0}
        self._going = []

    def run(self, seconds, between=(0.2, 1.2)):
        """Give the table."""
        with Cluster(self._folder, nodes=self._nodes) as self.cluster:
            self._watcher = Watcher(self.cluster.metadata)
            self._begin()
            began = time.monotonic()
            self._watcher.start()
            self._nemesis = ControlNemesis(
                self.cluster, self._watcher, seed=self._seed, deck=self._deck, pause=self._pause, away=self._away,
                reach=self._reach, when_up=self._when_up,
            )  # fmt: skip
            self._nemesis.deal(seconds, between=between, meanwhile=self._keep_bounded)
            problems = self._end()
            self._watcher.stop()
            return self._table(time.monotonic() - began, problems)

    def _begin(self):
        self._jobs = jobs_of(self._folder / "out", self.cluster.output.url, **self._size)
        prepared(self.cluster.output, self._jobs)
        for job in self._jobs:
            self.cluster.submit(job)
        self.cluster.until(
            lambda: all((self.cluster.row(job).progress or {}).get("epoch") is not None for job in self._jobs),
            _GOES_ON_SECONDS,
            "every job has published",
        )

    def _keep_bounded(self):
        """Two jobs with an end are always there: when one has ended it is judged, and the next one begins."""
        self._going = [job for job in self._going if self.cluster.row(job).status != "COMPLETED"]
        if len(self._going) >= _BOUNDED_AT_ONCE:
            return
        number = len(self._bounded)
        job = ChaosJob(f"bounded-{number}", self._folder / "out" / f"bounded-{number}", rows=BOUNDED_ROWS)
        self.cluster.submit(job)
        self._bounded.append(job)
        self._going.append(job)

    def _end(self):
        """Everything is well again: all jobs go on, then they end as asked, and are judged."""
        for process in self.cluster.processes:
            if not process.is_running:
                process.start()
        problems = []
        before = {job.name: self._epoch(job) for job in self._jobs}
        for job in self._jobs:
            problems += self._expect(lambda job=job: self._epoch(job) > before[job.name], f"{job.name} goes on")
        for job in self._jobs:
            problems += self._expect(lambda job=job: self._drained(job), f"{job.name} can be asked to drain")
        for job in [*self._jobs, *self._going]:
            ended = lambda job=job: self.cluster.row(job).status == "COMPLETED"  # noqa: E731
            problems += self._expect(ended, f"{job.name} ends")
        return problems

    def _drained(self, job):
        if self.cluster.row(job).status == "RUNNING":
            self.cluster.stop(job, "drain")
            return True
        return False

    def _epoch(self, job):
        return (self.cluster.row(job).progress or {}).get("epoch", -1)

    def _expect(self, holds, what):
        try:
            self.cluster.until(holds, _GOES_ON_SECONDS, what)
        except AssertionError as problem:
            return [str(problem)]
        return []

    def _stale(self):
        """Epochs that were published under a token below that of an earlier epoch."""
        found, last = 0, {}
        with acting(self.cluster.metadata) as act:
            rows = act.connection.execute(
                select(checkpoint).order_by(checkpoint.c.execution_id, checkpoint.c.checkpoint_id)
            )
            for row in rows:
                found += row.status == "COMPLETED" and row.token < last.get(row.execution_id, 0)
                last[row.execution_id] = max(row.token, last.get(row.execution_id, 0))
        return found

    def _blamed(self):
        """Runs that were swept although their node was neither paused nor gone, nor the database away."""
        found = []
        for event in failures(self.cluster.metadata):
            at = event.time.timestamp()
            if "fell silent" in event.cause and not self._is_excused(event, at):
                found.append(f"{event.time}: {event.cause}; {self._before(event, at)}")
        return found

    def _is_excused(self, event, at):
        """Whether that very node was paused or lost with its machine, or the database away for all."""
        names = ("database", self.cluster.node(event.cause.split()[1]).name)
        return any(begin <= at <= end for begin, end, name in self._nemesis.troubled if name in names)

    def _before(self, event, at):
        """What was done to the node in the half minute before it was swept, and when it was there again."""
        node = self.cluster.node(event.cause.split()[1])
        done = [(when, what) for when, name, what in self._nemesis.history if name == node.name]
        there = [(when, "is there") for when in node.registrations()]
        return ", ".join(f"{when - at:.1f} s {what}" for when, what in sorted(done + there) if at - 30 < when < at + 5)

    def _table(self, seconds, problems):
        for job in [*self._jobs, *self._bounded]:
            judged = job.judged()
            if judged["lost"] or judged["doubled"]:
                problems.append(f"{job.name}: {judged}")
            for name, value in judged.items():
                self._judged[name] += value
        causes = {}
        for event in failures(self.cluster.metadata):
            cause = "node fell silent" if "fell silent" in event.cause else event.cause[:60]
            causes[cause] = causes.get(cause, 0) + 1
        blamed = self._blamed()
        problems += [f"{name} was reached too rarely" for name in self._nemesis.points.missing()]
        problems += [*self._watcher.problems, *history_problems(self.cluster.metadata), *blamed]
        return {
            "seed": self._seed,
            "seconds": round(seconds, 1),
            "jobs": {**self._size, "bounded": len(self._bounded)},
            "faults": dict(sorted(self._nemesis.done.items())),
            "killed at": self._nemesis.points.hits(),
            **self._judged,
            "stale": self._stale(),
            "longest ownerless seconds": round(self._watcher.ownerless, 1),
            "ownerless longest": self._watcher.longest,
            "ownerless after 60 s": int(self._watcher.ownerless > _MOST_OWNERLESS),
            "take-over seconds": _times(self._watcher.takeovers),
            "adoption seconds": _times(self._watcher.adoptions),
            "restarts by node-process or dispatcher kills": len(blamed),
            "failures by cause": causes,
            "problems": problems,
        }


def _times(seconds):
    ordered = sorted(seconds)
    if not ordered:
        return {"count": 0}
    p95 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))]
    return {"count": len(ordered), "median": round(ordered[len(ordered) // 2], 1), "p95": round(p95, 1),
            "max": round(ordered[-1], 1)}  # fmt: skip


def is_clean(table):
    return not any(table[name] for name in ("problems", "lost", "doubled", "stale", "ownerless after 60 s"))


def main():
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--seed", type=int, default=1)
    asked.add_argument("--minutes", type=float, default=60)
    asked.add_argument("--node-kills", type=int, default=100)
    asked.add_argument("--machine-kills", type=int, default=10)
    asked.add_argument("--driver-kills", type=int, default=200)
    asked.add_argument("--dispatcher-kills", type=int, default=50)
    asked.add_argument("--database-kills", type=int, default=20)
    asked.add_argument("--away", type=int, default=1, help="times that the database is away for 60 s")
    asked.add_argument(
        "--pauses", type=int, default=100, help="two of five of nodes, the others of drivers and dispatchers"
    )
    asked.add_argument("--node-pauses", type=int, help="else two of five pauses are of nodes")
    asked.add_argument("--driver-pauses", type=int, help="else half of them are of drivers")
    asked.add_argument("--reach", type=int, default=25, help="times that a process is killed at each of N1 to N10")
    asked.add_argument("--nodes", type=int, default=3)
    asked.add_argument("--when-up", action="store_true", help="kill no node process again before it has registered")
    asked.add_argument("--jobs", type=int, default=9)
    asked.add_argument("--spark", type=int, default=2)
    asked.add_argument("--keep", type=Path, help="where everything is kept")
    chosen = asked.parse_args()
    nodes, dispatchers = chosen.pauses * 2 // 5, chosen.pauses // 10
    deck = {
        "node kill": chosen.node_kills,
        "machine kill": chosen.machine_kills,
        "driver kill": chosen.driver_kills,
        "dispatcher kill": chosen.dispatcher_kills,
        "database kill": chosen.database_kills,
        "database away": chosen.away,
        "node pause": nodes if chosen.node_pauses is None else chosen.node_pauses,
        "dispatcher pause": dispatchers,
        "driver pause": chosen.pauses - nodes - dispatchers if chosen.driver_pauses is None else chosen.driver_pauses,
    }
    with contextlib.ExitStack() as stack:
        folder = chosen.keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ms-control-")))
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o755)
        chaos = ControlChaos(
            folder, seed=chosen.seed, deck=deck, endless=chosen.jobs, spark=chosen.spark, nodes=chosen.nodes,
            reach=chosen.reach, when_up=chosen.when_up,
        )  # fmt: skip
        table = chaos.run(chosen.minutes * 60)
    print(json.dumps(table, indent=2), flush=True)
    return 0 if is_clean(table) else 1


if __name__ == "__main__":
    sys.exit(main())
