"""Every case of crafted names, here and in an interpreter that runs no assert statements."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.safety.crafted import CASES

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_a_crafted_name_is_refused(case, tmp_path):
    case(tmp_path)


def optimised(*arguments):
    command = [sys.executable, "-O", "-m", "tests.safety.crafted", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_nothing_depends_on_assert_statements():
    done = optimised()
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, f"{len(CASES)} cases, 0 failed, asserts off"), (
        done.stdout
    )


def test_the_run_without_assert_statements_would_notice():
    done = optimised("--plant")
    assert done.returncode == 1
    assert "FAILED _planted" in done.stdout
    assert done.stdout.splitlines()[-1] == "1 cases, 1 failed, asserts off"
