"""A JVM that PySpark started ends with the process that started it."""

from __future__ import annotations

import subprocess
import sys

from millstream.spark.start.command import java_options
from millstream.spark.start.launcher_jvm import end_process

_ENDS_WITH_INPUT = "import sys; sys.stdin.read(); sys.exit(3)"
_HANGS = "import sys, time; sys.stdin.read(); time.sleep(600)"


def started(code: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE)


def test_a_process_that_ends_with_its_input_is_waited_for():
    process = started(_ENDS_WITH_INPUT)
    end_process(process)
    assert process.returncode == 3


def test_a_process_that_hangs_is_killed():
    process = started(_HANGS)
    end_process(process, seconds=0.2)
    assert process.returncode == -9


def test_ending_twice_does_no_harm():
    process = started(_ENDS_WITH_INPUT)
    end_process(process)
    end_process(process)
    assert process.returncode == 3


def test_debug_leaves_the_log_settings_of_spark():
    assert any("log4j2" in option for option in java_options(quiet=True))
    assert not any("log4j2" in option for option in java_options(quiet=False))
