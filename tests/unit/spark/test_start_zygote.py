"""The zygote: a copy that has imported everything, for whoever asks for Python; and Python itself where there is no zygote."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from millstream.spark.start.zygote import Zygote

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only started on Linux")
_ARE_COPIES = "import sys; print('pyspark.worker' in sys.modules)"


@pytest.fixture(scope="module")
def zygote():
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        zygote = Zygote(Path(folder), os.environ)
        yield zygote
        zygote.end()


def asked(zygote, *arguments, **options):
    return subprocess.run([zygote.shim, *arguments], capture_output=True, text=True, check=False, timeout=60, **options)


def wait_until(holds):
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_copy_has_imported_everything(zygote):
    assert asked(zygote, "-c", _ARE_COPIES).stdout == "True\n"


def test_a_copy_has_the_arguments_environment_folder_and_streams_of_its_shim(zygote, tmp_path):
    code = "import os, sys; print(sys.argv[1:], os.environ['MARK'], os.getcwd(), sys.stdin.read())"
    env = {**os.environ, "MARK": "ä"}
    done = asked(zygote, "-c", code, "a b", "", cwd=tmp_path, env=env, input="given")
    assert done.stdout == f"['a b', ''] ä {tmp_path} given\n"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("import sys; sys.exit(7)", 7),
        ("pass", 0),
        ("raise ValueError('gone wrong')", 1),
        ("import sys; sys.exit('no')", 1),
    ],
)
def test_a_copy_ends_as_python_would(zygote, code, expected):
    done = asked(zygote, "-c", code)
    assert done.returncode == expected
    if "ValueError" in code:
        assert "ValueError: gone wrong" in done.stderr


def test_what_a_copy_prints_is_not_lost_when_it_leaves_at_once(zygote):
    done = asked(zygote, "-c", "import os; print('said'); os._exit(0)")
    assert done.stdout == "said\n"


def test_modules_run_as_they_would(zygote, tmp_path):
    (tmp_path / "here.py").write_text("print(__name__, __import__('sys').argv[1:])")
    assert asked(zygote, "-m", "here", "x", cwd=tmp_path).stdout == "__main__ ['x']\n"


def test_copies_draw_different_numbers(zygote):
    code = "import random, numpy; print(random.random(), numpy.random.random())"
    drawn = {asked(zygote, "-c", code).stdout for _ in range(3)}
    assert len(drawn) == 3


def test_ending_the_shim_ends_the_copy(zygote):
    code = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
    shim = subprocess.Popen([zygote.shim, "-c", code], stdout=subprocess.PIPE, text=True)
    copy = int(shim.stdout.readline())
    assert copy != shim.pid
    shim.terminate()
    shim.wait()
    shim.stdout.close()
    wait_until(lambda: not is_alive(copy))


def test_without_a_zygote_the_shim_is_python():
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        zygote = Zygote(Path(folder), os.environ)
        assert asked(zygote, "-c", _ARE_COPIES).stdout == "True\n"
        os.kill(zygote.pid, signal.SIGKILL)
        done = asked(zygote, "-c", _ARE_COPIES)
        assert (done.stdout, done.returncode) == ("False\n", 0)
        zygote.end()


def test_the_end_of_the_zygote_ends_its_copies():
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        zygote = Zygote(Path(folder), os.environ)
        code = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
        shim = subprocess.Popen([zygote.shim, "-c", code], stdout=subprocess.PIPE, text=True)
        copy = int(shim.stdout.readline())
        zygote.end()
        wait_until(lambda: not is_alive(copy))
        shim.wait()
        shim.stdout.close()


def test_nonsense_does_not_end_the_zygote(zygote):
    import socket

    with socket.socket(socket.AF_UNIX) as wire:
        wire.connect(str(zygote.shim.with_name("zygote")))
        wire.sendall(b"nonsense")
    assert asked(zygote, "-c", _ARE_COPIES).stdout == "True\n"
