"""Folders of running processes: private, and swept when their process is gone."""

import os
import socket
import stat
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path

import pytest

from millstream.spark.start import private
from millstream.spark.start.private import RunFolder, jvm_log, open_log, sweep

_KILLED = """
import os, signal
from millstream.spark.start.private import RunFolder
folder = RunFolder()
(folder.path / "content").write_text("x")
print(folder.path, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path_factory, monkeypatch):
    """A short temporary directory of the test's own."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        monkeypatch.setenv("TMPDIR", folder)
        monkeypatch.setattr(tempfile, "tempdir", None)
        private._root.cache_clear()
        yield Path(folder)
        private._root.cache_clear()


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_a_folder_is_for_its_user_alone(temporary):
    folder = RunFolder()
    assert mode(folder.path) == mode(folder.path.parent) == 0o700
    assert folder.path.is_relative_to(temporary)
    folder.remove()
    assert not folder.path.exists()


def test_what_a_killed_process_left_goes_with_the_next_start():
    killed = subprocess.run([sys.executable, "-c", _KILLED], stdout=subprocess.PIPE, text=True, check=False)
    left = Path(killed.stdout.strip())
    assert (left / "content").exists()
    alive = RunFolder()
    sweep(left.parent)
    assert not left.exists()
    assert alive.path.exists()
    alive.remove()


def test_a_folder_that_is_being_made_is_let_be():
    folder = RunFolder()
    root = folder.path.parent
    half = root / "new-half"
    half.mkdir()
    sweep(root)
    assert half.exists()
    os.utime(half, (0, 0))
    sweep(root)
    assert not half.exists()
    folder.remove()


def test_a_living_folder_stays_whatever_is_tidied_away_in_it():
    folder = RunFolder()
    for entry in folder.path.iterdir():
        entry.unlink()
    os.utime(folder.path, (0, 0))
    sweep(folder.path.parent)
    assert folder.path.exists()
    folder.remove()


@pytest.mark.parametrize("trap", ["a link", "open to others"])
def test_a_root_that_others_prepared_is_not_used(temporary, trap):
    root = temporary / f"millstream-{os.getuid()}"
    if trap == "a link":
        (temporary / "elsewhere").mkdir(mode=0o700)
        root.symlink_to(temporary / "elsewhere")
    else:
        root.mkdir()
        root.chmod(0o777)
    folder = RunFolder()
    assert not folder.path.resolve().is_relative_to(root.resolve())
    assert mode(folder.path.parent) == 0o700
    folder.remove()


def test_a_log_is_not_written_through_a_link(temporary):
    log = jvm_log()
    log.parent.mkdir(mode=0o700)
    victim = temporary / "victim"
    victim.write_text("precious")
    log.symlink_to(victim)
    with pytest.raises(OSError, match="symbolic"):
        open_log(log)
    assert victim.read_text() == "precious"


def test_old_logs_go(monkeypatch):
    monkeypatch.setattr(private, "_KEPT_LOGS", 2)
    logs = [jvm_log().with_name(f"spark-{number}.log") for number in range(4)]
    for age, log in enumerate(logs):
        open_log(log).close()
        os.utime(log, (age, age))
    open_log(logs[-1]).close()
    assert [log.exists() for log in logs] == [False, False, True, True]
    assert mode(logs[-1]) == 0o600


@pytest.mark.parametrize("length", [30, 60, 90])
def test_a_path_is_short_enough_for_sockets(temporary, monkeypatch, length):
    long = temporary / ("x" * length)
    long.mkdir()
    monkeypatch.setenv("TMPDIR", str(long))
    monkeypatch.setattr(tempfile, "tempdir", None)
    folder = RunFolder()
    (folder.path / "local").mkdir()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(folder.path / "local" / f".{uuid.uuid4()}.sock"))
    folder.remove()


def test_a_corner_that_goes_while_it_is_swept(tmp_path, monkeypatch):
    def gone(self, pattern):
        raise FileNotFoundError(self)

    monkeypatch.setattr(type(tmp_path), "glob", gone)
    private.sweep(tmp_path)
