"""`python -m tests.chaos`: rounds of faults over a real job, each checked against the oracle.

Every round has a seed of its own, made of the seed and its number, so a failure is replayed by its round alone.
"""

import argparse
import contextlib
import dataclasses
import importlib
import json
import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

from tests.chaos.faults import dealt, deck
from tests.chaos.invariants import check_all, round_found, sometimes_hit
from tests.chaos.process import Processes
from tests.chaos.round import Anomaly, Round
from tests.chaos.stores import DIRECTORY, ManifestStores
from tests.chaos.tally import Tally
from tests.servers.postgres import PostgresServer
from tests.servers.proxy import Proxy

SINKS = ("files", "postgres", "sqlite", "outbox")
_DISK_BYTES = 64 << 20
_AT_PLACES = ("kill at", "savepoint", "restore")
_RECOVERED = {"published by a later owner", "publication found done", "orphan clean-up"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Size:
    """How much a round holds."""

    rows_per_file: int = 120
    faults: int = 8


# Rounds.


@contextlib.contextmanager
def disk(folder, *, wanted):
    """The folder of a round, on a small file system of its own where that is allowed."""
    folder.mkdir(parents=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={_DISK_BYTES}", "tmpfs", str(folder)]
    is_mounted = wanted and subprocess.run(command, capture_output=True, check=False).returncode == 0
    try:
        yield
    finally:
        if is_mounted:
            subprocess.run(["umount", "-l", str(folder)], check=False)


def can_mount():
    """Whether this user may mount a file system."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["mount", "-t", "tmpfs", "-o", "size=65536", "tmpfs", folder]
        if os.geteuid() or subprocess.run(command, capture_output=True, check=False).returncode:
            return False
        return subprocess.run(["umount", folder], check=False).returncode == 0


class Chaos:
    """Servers and processes that the rounds share."""

    world = "files"

    def __init__(self, folder, *, seed, engine="local", sinks=SINKS, size=None, only="", mounts=True):
        self.folder, self.seed, self.engine, self.sinks = Path(folder), seed, engine, tuple(sinks)
        self.size = size or Size()
        self.tally = Tally()
        self._open = contextlib.ExitStack()
        self.server = self.proxy = None
        self._open_servers()
        self.stores = ManifestStores(self._open, server=self.server, proxy=self.proxy)
        # After the servers: what it starts finds them by the environment.
        self.processes = Processes()
        self._open.callback(self.processes.close)
        self.has_disk = mounts and engine == "local" and can_mount()
        self.only = only
        every = self._deck(engine)
        self.faults = {name: fault for name, fault in every.items() if name.startswith(only)}
        if not self.faults:
            raise SystemExit(f"no fault begins with {only!r}; there are: {', '.join(sorted(every))}")

    def _open_servers(self):
        if set(self.sinks) & {"postgres", "outbox"}:
            self.server = PostgresServer().start()
            self._open.callback(self.server.stop)
            self.proxy = Proxy(self.server.port)
            self._open.callback(self.proxy.close)

    def _deck(self, engine):
        return deck(engine, self.sinks, has_disk=self.has_disk)

    def _new_round(self, folder, seed, **world):
        return Round(folder, seed, **world)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._open.close()

    def round(self, number, names=None, store=None):
        """One round; violations are noted in the tally with the command that repeats it."""
        names = names or dealt(self.faults, self.seed, number, self.size.faults)
        folder = self.folder / f"round-{number}"
        with disk(folder, wanted=self.has_disk):
            round_ = self._world(folder, number, store or self._store_for(number, names))
            problems = self._problems(round_, names)
            self.processes.end_all()
            round_.close()
            if problems:
                self._keep(round_)
        if problems:
            self.tally.problems.append({"round": number, "problems": problems, "replay": self.replay(number)})
        return round_

    def _store_for(self, number, names):
        """Where the round keeps its manifests. What is damaged are files, on Spark Spark's own beside ours."""
        needs_files = self.engine == "spark" or any(name.startswith("damage") for name in names)
        return DIRECTORY if needs_files else random.Random(f"{self.seed}/{number}/store").choice(self.stores.kinds)

    def _world(self, folder, number, store):
        return self._new_round(
            folder,
            f"{self.seed}/{number}",
            engine=self.engine,
            sinks=self.sinks,
            processes=self.processes,
            server=self.server,
            proxy=self.proxy,
            size=self.size,
            stores=self.stores,
            store=store,
        )

    def _problems(self, round_, names):
        done = []
        try:
            self._begin(round_)
            for name in names:
                self.faults[name](round_)
                done.append(name)
            round_.heal()
            problems = check_all(round_)
            self.tally.checked += 1
            round_.sometimes |= sometimes_hit(round_found(round_))
        except Exception as problem:  # whatever it is, the seed and the command belong to it
            where = names[len(done)] if len(done) < len(names) else "the end"
            trace = "" if isinstance(problem, Anomaly | TimeoutError) else f"\n{traceback.format_exc()}"
            problems = [f"{where}: {problem}{trace}"]
        self.tally.add(round_, done)
        return problems

    def _begin(self, round_):
        """The first epochs, so that there are tables to audit."""
        round_.feed(3)
        process = round_.start(fresh=True)
        round_.await_epochs(process, 1, since=0)
        round_.cold_start = time.monotonic() - process.began
        round_.killed(process, "first kill")
        round_.outputs.install_audit()

    def _keep(self, round_):
        """A copy of what failed, for whoever looks into it."""
        kept = Path(f"{round_.folder}.failed")
        shutil.copytree(round_.folder, kept, dirs_exist_ok=True)

    def replay(self, number):
        """The command that runs a round again."""
        sinks = ",".join(self.sinks)
        return (
            f"python -m tests.chaos --world {self.world} --seed {self.seed} --round {number} --engine {self.engine} "
            f"--sinks {sinks} --rows {self.size.rows_per_file} --faults {self.size.faults}"
        ) + (f" --only {shlex.quote(self.only)}" if self.only else "")

    def numbers(self, seconds):
        """The run in numbers."""
        about = {"world": self.world, "seed": self.seed, "engine": self.engine, "sinks": ",".join(self.sinks)}
        return {**about, **self.tally.numbers(), "not hit": self.unhit(), "seconds": round(seconds)}

    def unhit(self):
        """I10: the part of the sometimes list that was not hit."""
        places = {name.rpartition(" at ")[2] for name in self.faults if name.startswith(_AT_PLACES)}
        wanted = places - {"random", "random again"} | _RECOVERED | self._wanted()
        return sorted(wanted - self.tally.sometimes)

    def _wanted(self):
        if self.engine != "local":
            return set()
        wanted = {"fence refusal", "second owner refused", "damage refused", "full disk", "restore"}
        wanted.add("lease written unheard")
        return wanted | ({"database restart", "lost reply to COMMIT"} if self.server is not None else set())


def options(arguments):
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seed", type=int, default=None, help="default: the time")
    parser.add_argument("--kills", type=int, default=40, help="end after that many kills")
    parser.add_argument("--minutes", type=float, default=60.0, help="begin no round after that")
    parser.add_argument(
        "--world", choices=("files", "kafka", "bounded"), default="files", help="where rows come from and go to"
    )
    parser.add_argument("--engine", choices=("local", "spark", "both"), default="local")
    parser.add_argument("--sinks", default=",".join(SINKS))
    parser.add_argument("--round", type=int, default=None, help="only this round: repeats a failure")
    parser.add_argument("--rows", type=int, default=Size.rows_per_file, help="rows per input file")
    parser.add_argument("--faults", type=int, default=Size.faults, help="faults per round")
    parser.add_argument("--only", default="", help="only faults whose name begins like this, such as 'take over'")
    parser.add_argument("--folder", default=None, help="keep everything here")
    return parser.parse_args(arguments)


def main(arguments=None):
    """Run rounds until there were enough kills; the exit code is 1 when an invariant was violated."""
    chosen = options(arguments)
    # An orderly end: servers stop and file systems are unmounted.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    seed = chosen.seed if chosen.seed is not None else int(time.time())
    engines = ("local", "spark") if chosen.engine == "both" else (chosen.engine,)
    root = Path(chosen.folder or tempfile.mkdtemp(prefix="ms-chaos-"))
    print(f"seed {seed}, folder {root}", flush=True)
    if chosen.world == "bounded":
        return 0 if importlib.import_module("tests.chaos.bounded.run").main(chosen, seed, root) else 1
    is_clean = True
    for engine in engines:
        is_clean = _run_engine(chosen, seed, engine, root) and is_clean
    return 0 if is_clean else 1


def chaos_of(world):
    """What runs the rounds of a world."""
    if world == "kafka":
        return importlib.import_module("tests.chaos.kafka.run").KafkaChaos
    return Chaos


def _run_engine(chosen, seed, engine, root):
    size = Size(rows_per_file=chosen.rows, faults=chosen.faults)
    began = time.monotonic()
    world, sinks = chaos_of(chosen.world), chosen.sinks.split(",")
    with world(root / engine, seed=seed, engine=engine, sinks=sinks, size=size, only=chosen.only) as chaos:
        number = chosen.round or 1
        while True:
            round_ = chaos.round(number)
            _show(chaos, round_, number)
            elapsed = time.monotonic() - began
            if chosen.round or chaos.tally.kills >= chosen.kills or elapsed > chosen.minutes * 60:
                break
            number += 1
        numbers = chaos.numbers(time.monotonic() - began)
        print(json.dumps(numbers, indent=2), flush=True)
        is_void = bool(numbers["not hit"]) and not (chosen.round or chosen.only) and chosen.kills >= 100
        if is_void:
            print(f"I10: the run is void, not hit: {', '.join(numbers['not hit'])}")
        return not chaos.tally.problems and not is_void


def _show(chaos, round_, number):
    numbers = f"{round_.kills} kills, {round_.pauses} pauses, {round_.takeovers} takeovers, {chaos.tally.epochs} epochs so far"
    print(f"round {number}: {numbers}", flush=True)
    for entry in chaos.tally.problems:
        if entry["round"] == number:
            print("\n".join(f"  VIOLATION {text}" for text in entry["problems"]))
            print(f"  seed {chaos.seed}, kept in {round_.folder}.failed, repeat with\n  {entry['replay']}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
