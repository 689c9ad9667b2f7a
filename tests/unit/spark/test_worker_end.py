"""A worker that ends by itself closes what it opened, whichever way its interpreter leaves."""

import subprocess
import sys

import pytest

SCRIPT = """
import os, sys
from millstream.spark.query.worker_end import call_at_end
call_at_end(lambda: print("closed", flush=True))
{end}
"""


def said(end):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(end=end)], capture_output=True, text=True, timeout=60, check=False
    )
    return done.stdout.split(), done.returncode


@pytest.mark.parametrize("end", ["", "sys.exit(0)", "os._exit(0)"])
def test_an_orderly_end_closes_once(end):
    assert said(end) == (["closed"], 0)


def test_a_crash_closes_nothing():
    assert said("os._exit(9)") == ([], 9)


def test_a_process_that_was_forked_from_it_closes_nothing():
    assert said("pid = os.fork()\nif not pid: os._exit(0)\nos.waitpid(pid, 0)\nos._exit(1)") == ([], 1)
