"""The project that `millstream init` makes shows the same result on Spark as locally."""

import pytest
from tests.unit.cli.test_init import EXPECTED, MAIN, run, shown

pytestmark = pytest.mark.spark


def test_the_job_of_a_new_project_runs_on_spark(tmp_path):
    assert run(tmp_path, *MAIN, "init", "shop").returncode == 0
    done = run(tmp_path / "shop", *MAIN, "run", "job.py", "--master", "local[2]")
    assert done.returncode == 0, done.stderr
    assert shown(done.stdout) == EXPECTED
