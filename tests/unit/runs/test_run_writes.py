"""How runs write, in each mode: what replaces is seen whole or not at all, and nothing is lost or doubled by a kill."""

import itertools
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest
from tests.unit.runs.real_inputs import real_input
from tests.unit.runs.writing_job import NOTHING, expected, job_of, seen, selected

import millstream as ms

ROOT = Path(__file__).parents[3]
MODES = ("STREAMING", "BATCH_ROLLER", "SQL_TASK")
CARRIES = ("nothing", "position", "state")
PLACES = (
    "lineage_raised:1",
    "published:1",
    "staged:2",
    "durable:2",
    "durable:4",
    "sink_published:1",
    "sink_transaction:2",
    "table_emptied:1",
    "table_emptied:2",
    "files_shown:1",
)


class Runs:
    """Three runs over growing and changing input, with what each must have read."""

    def __init__(self, data, place, carry):
        self.data, self.place, self.carry = data, place, carry
        self.fresh, self.read, self.added = data.all, [], Counter()
        self.before = NOTHING

    def next(self):
        """What is seen behind the next run."""
        rows = self.data.all if self.carry == "nothing" else self.fresh
        self.read = [*self.read, *rows] if self.carry == "state" else rows
        self.added += Counter(row["id"] for row in rows)
        return expected(rows, self.read)

    def done(self, wanted):
        """The run is over: all of it is seen, and the input moves on."""
        assert seen(self.place) == wanted
        ids = Counter(ms.read_files(self.place / "added")["id"].to_pylist())
        assert ids == self.added
        assert sorted(row for (row,) in selected(self.place, "latest", "id")) == sorted(self.added)
        self.before = wanted
        self.fresh = self.data.add(5)
        self.data.change(1, 2)

    def job(self):
        return job_of(self.data.mode, self.data.address, self.place, self.carry)

    def run(self, **options):
        return self.job().run(local=True, checkpoint=self.place / "checkpoint", **options)


def is_whole(view, before, wanted):
    """Each sink shows all of the one result or all of the other."""
    return all(view[name] in (before[name], wanted[name]) for name in view)


@pytest.mark.parametrize("carry", CARRIES)
@pytest.mark.parametrize("mode", MODES)
def test_three_runs_replace_each_other(mode, carry, tmp_path):
    with real_input(mode, tmp_path / "input") as data:
        runs = Runs(data, tmp_path, carry)
        for number in (1, 2, 3):
            wanted, views = runs.next(), []
            result = runs.run(on_epoch=lambda _, views=views: views.append(seen(tmp_path)))
            assert result.run == number
            assert len(views) > 1
            assert all(view == runs.before for view in views[:-1]), "nothing is seen before the end"
            runs.done(wanted)


@pytest.mark.parametrize(("mode", "carry"), [*zip(MODES, CARRIES, strict=True)])
def test_a_run_that_breaks_off_leaves_whole_results(mode, carry, tmp_path, failpoints):
    places = iter(PLACES)
    with real_input(mode, tmp_path / "input") as data:
        runs = Runs(data, tmp_path, carry)
        for number in (1, 2, 3):
            wanted = runs.next()
            for where in itertools.islice(places, 3):
                failpoints(f"{where}:raise")
                try:
                    runs.run(run_id=f"run-{number}")
                except ms.MillstreamError as problem:
                    assert problem.code == "TEST-FAILPOINT", problem
                failpoints("")
                assert is_whole(seen(tmp_path), runs.before, wanted), where
            assert runs.run(run_id=f"run-{number}").run == number
            runs.done(wanted)


class Reader(threading.Thread):
    """Looks at the results all the time, and notes what is not whole."""

    def __init__(self, runs, wanted):
        super().__init__(daemon=True)
        self.runs, self.wanted, self.looks, self.half = runs, wanted, 0, []
        self._over = threading.Event()

    def run(self):
        while not self._over.is_set():
            view = seen(self.runs.place)
            self.looks += 1
            self._over.wait(0.002)  # so that others get a turn
            if not is_whole(view, self.runs.before, self.wanted):
                self.half.append(view)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self.join(60)


KILLS = [*zip(MODES, ("position", "state", "nothing"), ("durable:2", "table_emptied:1", "files_shown:1"), strict=True)]


@pytest.mark.parametrize(("mode", "carry", "where"), KILLS)
def test_three_runs_and_one_killed_before_a_reader_that_looks_all_the_time(mode, carry, where, tmp_path):
    def killed(runs):
        words = [sys.executable, "-m", "tests.unit.runs.writing_job", mode, runs.data.address, str(tmp_path), carry]
        environment = {**os.environ, "MILLSTREAM_FAILPOINTS": f"{where}:kill"}
        return subprocess.run(words, env=environment, cwd=ROOT, timeout=120, check=False).returncode

    with real_input(mode, tmp_path / "input") as data:
        runs = Runs(data, tmp_path, carry)
        for number in (1, 2, 3):
            wanted = runs.next()
            with Reader(runs, wanted) as reader:
                assert number != 2 or killed(runs) == -signal.SIGKILL
                runs.run(run_id="killed" if number == 2 else None)
            assert (reader.half, reader.looks > 0) == ([], True)
            runs.done(wanted)
