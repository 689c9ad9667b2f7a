"""`python -m tests.chaos --world bounded`: jobs with an end are killed again and again, and fetch nothing committed again.

Before each start it is noted which rows are published. What the servers are asked for then, and what comes through the job,
may hold none of them: only what was under way when the job was killed is fetched a second time.
"""

import collections
import json
import random
import time
from pathlib import Path

from tests.chaos.bounded.worlds import WORLDS, opened_world, rows_of
from tests.chaos.nemesis import EPOCH_PLACES, START_PLACES
from tests.chaos.process import Processes

import millstream as ms
from millstream.connectors.files.store import LISTS

_INTAKE_PLACES = ("intake_written", "intake_synced")
_AFTER_DURABLE = ("durable", "sink_published", "published", "before_commit_log", "planned")
"""Killed there, an epoch is durable and the next one has not begun: nothing was under way."""
_PATIENCE = 120
_ROWS, _ROWS_PER_EPOCH = 1_200, 25
_KILLS_PER_RUN = 12
"""More of them, and the rows are at an end first."""


class BoundedRun:
    """One run of a job, through all its starts."""

    def __init__(self, folder, seed, world, processes, *, rows=_ROWS):
        self._folder, self._world, self._processes = Path(folder), world, processes
        self._random = random.Random(seed)
        self._rows = rows_of(seed, rows)
        self.kills = self.starts = 0
        self.fetches = self.again = 0
        """Pages or ranges that were asked for, and how many of them not for the first time."""
        self.problems = []
        (self._folder / "seen").mkdir(parents=True)
        self._config = {
            "bounded": world.mode,
            "folder": str(self._folder),
            "checkpoint": str(self._folder / "checkpoint"),
            "engine": "local",
            "rows_per_epoch": _ROWS_PER_EPOCH,
            "parallelism": self._random.choice([1, 2, 3]),
            "lease_term": 1_000,
            "retained": 10,
            **world.fill(self._rows),
        }
        self._known, self._came, self._durable, self._before = set(), set(), set(), ""
        self._is_decided = False

    def play(self, kills):
        """Kill it that often, or until it is done; then let it end, and compare."""
        while self.kills < kills:
            if self._start(self._fault()) == 0:
                break
        else:
            self._start("")
        self._compare()

    def _fault(self):
        places = [*EPOCH_PLACES, *START_PLACES, *(_INTAKE_PLACES if self._world.mode == "http" else ())]
        place = self._random.choice([place for place in places if place != "sink_transaction"])
        return f"{place}:{1 if place in START_PLACES else self._random.randint(1, 4)}:kill"

    def _start(self, failpoints):
        """One start, to its end; its exit code."""
        self.starts += 1
        published = self._published()
        self._config["start"] = self.starts
        (self._folder / "config.json").write_text(json.dumps(self._config))
        process = self._processes.start(self._folder, failpoints=failpoints)
        code = process.wait(_PATIENCE)
        if not self._is_decided and self._published():
            # By then it stands where the run ends.
            self._is_decided = True
            self._world.add_later()
        self.kills += code == -9
        if code not in (0, -9):
            self.problems.append(f"start {self.starts} with {failpoints!r} ended with {code}: {process.end}")
            raise RuntimeError(self.problems[-1])
        if failpoints == "" and code != 0:
            self.problems.append(f"start {self.starts} did not end by itself")
        self._check_fetched(published, failpoints)
        return code

    def _check_fetched(self, published, failpoints):
        fetched = [ids for ids in self._world.fetched() if ids]
        self.fetches += len(fetched)
        self.again += sum(not ids.isdisjoint(self._known) for ids in fetched)
        self._known |= set().union(*fetched)
        came = self._seen()
        where = f"start {self.starts} ({failpoints or 'no fault'})"
        if again := [sorted(ids & published) for ids in fetched if ids & published]:
            self.problems.append(f"{where}: committed pages were fetched again, such as ids {again[0][:5]}")
        if again := came & published:
            self.problems.append(f"{where}: {len(again)} committed rows came through the job again")
        if again := came & self._durable:
            self.problems.append(f"{where}: {len(again)} durable rows came again after {self._before}")
        self._came, self._before = self._came | came, failpoints
        if failpoints.startswith(_AFTER_DURABLE) and came:
            # What was under way in an earlier start came again first. A start in which nothing came has ended nothing.
            self._durable = set(self._came)

    def _seen(self):
        path = self._folder / "seen" / str(self.starts)
        return set(map(int, path.read_text().split())) if path.exists() else set()

    def _listed(self, sink):
        path = self._folder / "out" / sink
        return ms.read_files(path).to_pylist() if (path / LISTS).exists() else []

    def _published(self):
        return {row["id"] for row in self._listed("rows")}

    def _compare(self):
        found = collections.Counter((row["id"], row["key"], row["amount"]) for row in self._listed("rows"))
        wanted = collections.Counter((row["id"], row["key"], row["amount"]) for row in self._rows)
        totals = collections.Counter((row["key"], row["n"], row["total"]) for row in self._listed("totals"))
        folded = {}
        for row in self._rows:
            n, total = folded.get(row["key"], (0, 0))
            folded[row["key"]] = (n + 1, total + row["amount"])
        for name, rows, right in (
            ("rows", found, wanted),
            ("totals", totals, collections.Counter((key, *sums) for key, sums in folded.items())),
        ):
            if rows != right:
                lost, more = (right - rows).total(), (rows - right).total()
                self.problems.append(f"I1 {name}: {lost} rows lost, {more} doubled or foreign")


def chaos(mode, folder, seed, kills, *, rows=_ROWS, until=None, **servers):
    """Runs of one mode until there were enough kills; what happened, in numbers."""
    total, began = collections.Counter(), time.monotonic()
    problems = []
    processes = Processes()
    with opened_world(mode, **servers) as world:
        try:
            while total["kills"] < kills and (until is None or time.monotonic() < until):
                total["runs"] += 1
                name = f"{mode}-{total['runs']}"
                run = BoundedRun(Path(folder) / name, f"{seed}/{name}", world, processes, rows=rows)
                try:
                    run.play(min(_KILLS_PER_RUN, kills - total["kills"]))
                except RuntimeError:
                    pass  # it stands among the problems
                finally:
                    total.update(kills=run.kills, starts=run.starts, fetches=run.fetches)
                    total["fetched twice"] += run.again
                    problems += [f"run {total['runs']}: {text}" for text in run.problems]
        finally:
            processes.close()
    return {"mode": mode, "seed": seed, **total, "problems": problems, "seconds": round(time.monotonic() - began)}


def main(chosen, seed, root):
    """Every mode in turn; whether all of them were clean."""
    until = time.monotonic() + chosen.minutes * 60
    is_clean = True
    for mode in WORLDS:
        numbers = chaos(mode, root, seed, chosen.kills, until=until)
        print(json.dumps(numbers, indent=2), flush=True)
        is_clean = is_clean and not numbers["problems"]
    return is_clean
