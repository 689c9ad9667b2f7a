"""The faults. Each takes a round whose job does not run, starts it, breaks something, and leaves it ended again."""

import os
import signal
import time
from pathlib import Path

from tests.chaos.damage import damage_and_restart
from tests.chaos.outputs import DEAD
from tests.chaos.process import await_true
from tests.chaos.round import Anomaly
from tests.chaos.workload import SOURCES

# The failpoints that every epoch passes, in order. F1 to F10 are the places of the protocol.
EPOCH_PLACES = (
    "planned",  # F8: the epoch before is logged as committed
    "begun",  # F2
    "task_staged",  # F3: some tasks have staged
    "staged",  # F4: all have
    "prepared",  # F5
    "manifest_written",  # F5: written, not durable
    "durable",  # F6: no sink has published
    "sink_transaction",  # F6: inside the transaction of a database sink
    "sink_published",  # F6: k of n sinks
    "published",  # F7
    "before_commit_log",  # F7
)
START_PLACES = ("leased", "lineage_raised")  # F1, and F10 of a plain start
SAVEPOINT_PLACES = ("savepoint_files", "savepoint_written")  # F9
RESTORE_PLACES = ("lineage_raised", "files_closed", "files_withdrawn")  # F10
DATABASE_PLACES = ("sink_transaction",)
FENCED_EXIT, REFUSED_EXIT = 10, 11
# Where a pause holds no lock that others need.
TAKEOVER_PLACES = (
    "leased", "lineage_raised", "planned", "begun", "task_staged", "staged", "prepared", "manifest_written", "durable",
    "sink_published", "published", "before_commit_log",
)  # fmt: skip


def passes(round_, place):
    """How often an epoch passes a place, at most."""
    streams = round_.config["streams"]
    several = {
        "task_staged": round_.config["parallelism"],
        "sink_transaction": sum(kind != "files" for kind in (*streams.values(), *round_.letters.values())),
        "sink_published": len(SOURCES) + len(streams) + len(DEAD),
    }
    return several.get(place, 1)


def nth(round_, place):
    """After at least two whole epochs of the process, so that each fault is followed by two new epochs."""
    if place not in EPOCH_PLACES:
        return 1
    # Spark may begin with an epoch that is durable already.
    epochs, often = 2 if round_.engine == "local" else 3, passes(round_, place)
    return round_.passes_at_start(place) + epochs * often + 1 + round_.random.randrange(often)


def kill_at(round_, place):
    """`kill -9` at a failpoint."""
    _die_at(round_, place, "kill", {-9})


def fail_at(round_, place):
    """An error of ours at a failpoint: the process ends in an orderly way."""
    _die_at(round_, place, "raise", {12})


def disk_full_at(round_, place):
    """The error of a full disk at a failpoint."""
    _die_at(round_, place, "enospc", {12, 13, 14})


def _die_at(round_, place, action, codes):
    round_.feed(6)
    since, began = round_.progress(), time.monotonic()
    armed = f"{place}:{nth(round_, place)}:{action}"
    process = round_.start(armed)
    code = round_.await_end(process)
    if code not in codes:
        raise Anomaly(f"armed with {armed} the process ended with {code}: {process.end}")
    if place in EPOCH_PLACES and round_.progress() < since + 2:
        raise Anomaly(f"I9: {round_.progress() - since} epochs before {armed}")
    round_.sometimes.add(place)
    round_.note_kill(f"{action} at {place}", code, armed=armed, seconds=round(time.monotonic() - began, 2))


def kill_random(round_):
    """`kill -9` at a random moment, starting included."""
    round_.feed(6)
    process = round_.start()
    time.sleep(round_.random.uniform(0, 2.0 if round_.engine == "local" else 60.0))
    round_.killed(process, "kill at random")


def kill_after_epochs(round_):
    """`kill -9` a random while after the second new epoch; how long the process took to publish again is noted."""
    round_.feed(6)
    since = round_.progress()
    process = round_.start(fresh=True)
    round_.await_epochs(process, 1, since=since)
    round_.recoveries.append(time.monotonic() - process.began)
    round_.await_epochs(process, 2, since=since)
    time.sleep(round_.random.uniform(0, 0.2))
    round_.killed(process, "kill after epochs")


def burst(round_):
    """Many kills in a row, most before the first epoch."""
    round_.feed(6)
    for _ in range(5):
        process = round_.start()
        time.sleep(round_.random.uniform(0, 0.4))
        round_.killed(process, "kill in a burst")


def takeover_at(round_, place):
    """SIGSTOP at a failpoint beyond the lease; another owner runs; SIGCONT: the first must end by itself, fenced."""
    round_.feed(8)
    process = round_.start(f"{place}:{nth(round_, place)}:stop")
    await_stop(round_, process)
    round_.sometimes.add(place)
    replaced_while_stopped(round_, process, place)


def takeover_random(round_):
    """The same with a pause at a random moment."""
    round_.feed(8)
    process = round_.start()
    time.sleep(round_.random.uniform(0.05, 1.5))
    process.signal(signal.SIGSTOP)
    await_stop(round_, process)
    replaced_while_stopped(round_, process, "random")


def await_stop(round_, process):
    await_true(lambda: process.is_stopped or process.code is not None, round_.patience, "the pause")
    if process.code is not None:
        raise Anomaly(f"the process ended with {process.code} before its pause: {process.end}")
    round_.pauses += 1


def replaced_while_stopped(round_, first, place):
    since, began = round_.progress(), time.monotonic()
    second = round_.start()
    try:
        round_.await_epochs(second, 2, since=since)
    except Anomaly:
        # A process paused inside a lock keeps others out until the lock's own time is over; nobody may go on meanwhile.
        code = second.code
        if place != "random" or code not in (12, 13):
            raise
        round_.history.note("takeover", "fail", place=place, second=second.end.get("code"))
        first.signal(signal.SIGCONT)
        round_.killed(first, "kill after a pause inside a lock")
        return
    taken, woken = time.monotonic() - began, time.monotonic()
    first.signal(signal.SIGCONT)
    code = first.wait(20)
    if place == "random" and code == REFUSED_EXIT and first.end.get("code") == "CKPT-021":
        # It was paused before it had the lease, so it never was an owner.
        round_.history.note("takeover", "fail", place=place, code=first.end.get("code"))
        round_.killed(second, "kill the only owner")
        return
    if code != FENCED_EXIT:
        raise Anomaly(f"the replaced owner, paused at {place}, ended with {code}: {first.end}")
    round_.takeovers += 1
    round_.fenced += 1
    round_.sometimes.add("fence refusal")
    seconds = {"taken over": round(taken, 2), "fenced": round(time.monotonic() - woken, 2)}
    round_.history.note("takeover", "ok", place=place, first=first.end.get("message"), seconds=seconds)
    round_.await_epochs(second, 1)
    round_.killed(second, "kill the new owner")


def two_owners(round_):
    """A second owner started on purpose is refused and the first goes on; or both at once, and one of them."""
    round_.feed(8)
    at_once = round_.random.randrange(2)
    first = round_.start()
    if not at_once:
        round_.await_epochs(first, 1)
    second = round_.start()
    await_true(lambda: first.code is not None or second.code is not None, 30, "the refusal of one owner")
    refused, other = (first, second) if first.code is not None else (second, first)
    if refused.code != REFUSED_EXIT or refused.end.get("code") != "CKPT-021":
        raise Anomaly(f"one of two owners ended with {refused.code}: {refused.end}")
    round_.sometimes.add("second owner refused")
    round_.history.note("two owners", "fail", code=refused.end.get("code"), at_once=at_once)
    round_.await_epochs(other, 2)
    round_.killed(other, "kill the only owner")


def restart_postgres(round_):
    """Kill or stop the database server while epochs run; the job goes on by itself or ends with an error of ours."""
    round_.feed(10)
    how = round_.random.choice([signal.SIGKILL, signal.SIGINT, signal.SIGQUIT])
    process = round_.start()
    round_.await_epochs(process, 1)
    time.sleep(round_.random.uniform(0, 0.3))
    server = round_.server
    if how == signal.SIGKILL:
        server.kill()
    else:
        os.kill(server.pid, how)
        await_true(lambda: _is_gone(server.pid), 30, "the end of PostgreSQL")
    server.start()
    round_.sometimes.add("database restart")
    round_.history.note("restart PostgreSQL", "ok", signal=how.name)
    if process.code is None:
        round_.await_epochs(process, 2)
    elif process.code != 12:
        raise Anomaly(f"without its database the job ended with {process.code}: {process.end}")
    round_.killed(process, "kill after the restart of PostgreSQL")


def _is_gone(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def lose_commit_reply(round_):
    """The reply to a COMMIT is lost on its way; then all connections are cut."""
    round_.feed(10)
    process = round_.start()
    round_.await_epochs(process, 1)
    round_.proxy.lose_reply_to(b"COMMIT")
    if not round_.proxy.lost.wait(round_.patience):
        raise Anomaly("no COMMIT passed the proxy")
    round_.await_epochs(process, 2)
    round_.proxy.cut()
    round_.await_epochs(process, 2)
    round_.sometimes.add("lost reply to COMMIT")
    round_.killed(process, "kill after a lost reply to COMMIT")


def limit_files(round_):
    """No file may grow beyond a few kilobytes: writes fail half-way through, anywhere."""
    round_.feed(6)
    size = round_.random.choice([600, 2_000, 6_000, 20_000])
    process = round_.start(max_bytes=size)
    time.sleep(round_.random.uniform(1.0, 2.5))
    code = process.code
    if code is not None and code not in (10, 11, 12, 13, 14):
        raise Anomaly(f"with files of at most {size} bytes the job ended with {code}: {process.end}")
    end = process.end
    round_.history.note("limit files", "fail" if code else "ok", bytes=size, code=code, error=end.get("code"))
    if code is None:
        round_.killed(process, "kill under a limit of file sizes")
    round_.sometimes.add("full disk")


def fill_disk(round_):
    """The file system itself is full, but for a few kilobytes; then there is space again."""
    round_.feed(6)
    filler = round_.folder / "filler"
    free = os.statvfs(round_.folder)
    left = round_.random.choice([0, 8, 24, 60, 120]) * 1024
    process = round_.start()
    with filler.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, max(free.f_bavail * free.f_frsize - left, 4096))
    await_true(lambda: process.code is not None, round_.patience, "the end of the job on a full disk")
    end, code = process.end, process.code
    filler.unlink()
    if code not in (10, 11, 12, 13, 14):
        raise Anomaly(f"on a full disk the job ended with {code}: {end}")
    round_.sometimes.add("full disk")
    round_.history.note("fill disk", "fail", left=left, code=code, error=end.get("code"), message=end.get("message"))


def damage(round_, what, how):
    """Damage a file of the checkpoint: refused with a code, or recovered; never other output."""
    kill_at(round_, "before_commit_log")
    damage_and_restart(round_, what, how)


def savepoint_killed(round_, place):
    """A savepoint under load, killed half-way; asked for once, it is there in the end."""
    round_.feed(10)
    identifier = f"s{len(round_.history.entries)}"
    process = round_.start(f"{place}:1:kill")
    round_.await_epochs(process, 1)
    round_.ask("savepoint", identifier)
    code = process.wait(round_.patience)
    if code != -9:
        raise Anomaly(f"killed in a savepoint at {place} it ended with {code}: {process.end}")
    round_.sometimes.add(place)
    round_.note_kill(f"kill at {place}", code)
    process = round_.start()
    answer = await_true(lambda: round_.answer(identifier), round_.patience, "the answer to the savepoint request")
    if not answer.done:
        raise Anomaly(f"the savepoint failed: {answer.error}")
    round_.await_epochs(process, 2)
    round_.killed(process, "kill after a savepoint")


def restore_killed(round_, place):
    """Suspend, restore at another parallelism into a new lineage, killed half-way, restored again."""
    round_.feed(4)
    identifier = f"s{len(round_.history.entries)}"
    process = round_.start()
    round_.await_epochs(process, 1)
    is_native = round_.random.randrange(3) == 0
    round_.ask("suspend", identifier, "native" if is_native else "canonical")
    code = process.wait(round_.patience)
    if code != 0 or process.end.get("code") != "suspended":
        raise Anomaly(f"suspending ended with {code}: {process.end}")
    path = round_.answer(identifier).path
    round_.history.note("suspend", "ok", epochs=round_.progress(), native=is_native)
    if is_native:
        round_.bases[path] = round_.head().epoch + 1
    _restore(round_, path, is_native=is_native)
    process = round_.start(f"{place}:1:kill")
    code = process.wait(round_.patience)
    if code != -9:
        raise Anomaly(f"killed in a restore at {place} it ended with {code}: {process.end}")
    round_.sometimes.add(place)
    round_.sometimes.add("restore")
    round_.note_kill(f"kill in a restore at {place}", code, parallelism=round_.config["parallelism"])
    round_.feed(4)
    process = round_.start()
    round_.await_epochs(process, 2, since=round_.progress())
    round_.bases[round_.head().lineage] = round_.bases.get(path, 0)
    round_.killed(process, "kill after a restore")


def _restore(round_, path, *, is_native):
    config = round_.config
    config["savepoint"] = path
    if not is_native:
        config["parallelism"] = round_.random.choice([p for p in (1, 2, 3, 4) if p != config["parallelism"]])
    if round_.random.randrange(2):
        round_.use_checkpoint(str(round_.folder / f"checkpoint-{len(round_.checkpoints)}"))
