"""The service of the examples: started as a newcomer starts it, with three jobs in three modes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import millstream as ms

SERVE = Path(__file__).parents[3] / "examples/serve.py"


def test_three_jobs_in_three_modes(tmp_path):
    command = [sys.executable, str(SERVE), "--folder", str(tmp_path / "service"), "--port", "0", "--once"]
    ran = subprocess.run(
        command, capture_output=True, text=True, timeout=200, env={**os.environ, "HOME": str(tmp_path)}
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "shop-report: completed, 5 records so far" in ran.stdout
    assert ran.stdout.rstrip().endswith("clicks-per-page: completed")
    report = {row["customer"]: row["orders"] for row in ms.read_files(tmp_path / "service/report").to_pylist()}
    assert set(report) == {f"c{number}" for number in range(5)}
    assert all(count >= 40 for count in report.values())
    assert (tmp_path / "service/data/admin.token").stat().st_mode & 0o777 == 0o600
    contexts = json.loads((tmp_path / "service/config/millstream/contexts.json").read_text())
    assert "token" not in contexts["contexts"]["local"]
