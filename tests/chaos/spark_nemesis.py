"""Faults of the parts of a run on Spark: the JVM, the Python driver, a Python worker."""

import functools
import os
import signal
import time
from pathlib import Path

from tests.chaos.process import await_true
from tests.chaos.round import Anomaly

_STRAY_SECONDS = 30


def _processes():
    """Parent and command line of every process."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                found[int(entry.name)] = (parent, (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
            except (OSError, IndexError):  # it has ended meanwhile
                continue
    return found


def family(pid):
    """A process and all its descendants, with their command lines."""
    everyone, found = _processes(), {pid}
    while more := {child for child, (parent, _) in everyone.items() if parent in found} - found:
        found |= more
    return {member: everyone[member] for member in found if member in everyone}


def _is_part(part, pid, process, members):
    parent, command = members[pid]
    match part:
        case "python":
            return pid == process.pid
        case "jvm":
            return "java" in command.split(" ", 1)[0]
        case "worker":
            return "pyspark.daemon" in command and "pyspark.daemon" in members.get(parent, (0, ""))[1]
    raise ValueError(part)


def kill_part(round_, part):
    """`kill -9` one part of a run; the rest ends by itself, or goes on, and no process is left behind."""
    round_.feed(10)
    process = round_.start()
    round_.await_epochs(process, 2)
    time.sleep(round_.random.uniform(0, 1))
    members = family(process.pid)
    victims = [pid for pid in sorted(members) if _is_part(part, pid, process, members)]
    if not victims:
        raise Anomaly(f"no {part} among {members}")
    os.kill(round_.random.choice(victims), signal.SIGKILL)
    if part == "worker":
        _goes_on_or_ends(round_, process)
    code = process.wait(60)
    if code == 0:
        raise Anomaly(f"without its {part} the job ended as if all were well: {process.end}")
    strays = _await_end(members)
    if strays:
        raise Anomaly(f"{_STRAY_SECONDS} s after its {part} was killed there still are {strays}")
    round_.kills += 1
    round_.sometimes.add(f"kill {part}")
    round_.history.note(f"kill {part}", "unknown", code=code, error=process.end.get("code"))


def _goes_on_or_ends(round_, process):
    since = round_.progress()
    await_true(lambda: process.code is not None or round_.progress() >= since + 2, round_.patience, "epochs or an end")
    process.kill()


def _await_end(members):
    until = time.monotonic() + _STRAY_SECONDS
    while left := [pid for pid in members if pid in (alive := _processes()) and alive[pid][1] == members[pid][1]]:
        if time.monotonic() > until:
            return left
        time.sleep(0.1)
    return []


FAULTS = {f"kill {part}": functools.partial(kill_part, part=part) for part in ("python", "jvm", "worker")}
