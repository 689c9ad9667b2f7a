"""Errors on the command line: clear lines, the user's own line, and an exit code for each kind."""

import pytest

from millstream.cli.failure import BadTarget, exit_code
from millstream.errors import (
    CheckpointRefused,
    ExternalFailure,
    Fenced,
    InvalidExpression,
    InvalidPlan,
    InvalidSchema,
    InvalidStep,
    MillstreamError,
    StepFailed,
)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InvalidStep("x"), 3),
        (InvalidSchema("x"), 3),
        (InvalidExpression("x"), 3),
        (InvalidPlan("x"), 3),
        (StepFailed("x"), 1),
        (ExternalFailure("x"), 4),
        (ExternalFailure("x", code="RUN-010"), 4),
        (CheckpointRefused("x"), 5),
        (BadTarget("x"), 2),
        (Fenced("x"), 5),
        (MillstreamError("x"), 70),
        (OSError("x"), 4),
        (KeyError("x"), 70),
    ],
)
def test_exit_codes(error, code):
    assert exit_code(error) == code


def test_an_error_names_the_line_of_the_user(cli, tmp_path):
    path = tmp_path / "bad_job.py"
    path.write_text(
        "import millstream as ms\njob = ms.Job('j')\n\n"
        "stream = job.source('in', ms.rate(1))\nstream.filter('valu > 1')\n"
    )
    result = cli("plan", path)
    assert result.exit_code == 3
    assert result.stderr.splitlines() == [
        "error [EXPR-005] step 'in.filter': expression 'valu > 1': unknown column 'valu'",
        f"  at: {path}:5: stream.filter('valu > 1')",
        "  known: value, timestamp",
        "  fix: use one of the known columns",
    ]


def test_debug_shows_the_traceback(cli, tmp_path):
    path = tmp_path / "bad_job.py"
    path.write_text("x = 1 / 0\n")
    result = cli("validate", path, "--debug")
    assert result.exit_code == 3
    assert "Traceback" in result.stderr
    assert "ZeroDivisionError" in result.stderr


def test_a_guarantee_that_cannot_be_kept(cli, job_file):
    job_file.write_text(job_file.read_text().replace('ms.collect("cli-orders")', "ms.print()"))
    result = cli("validate", job_file)
    assert result.exit_code == 3
    assert "PLAN-040" in result.stderr


def test_wrong_usage(cli, job_file):
    assert cli("plan", job_file, "--layer", "execution").exit_code == 2
    assert cli("run", job_file, "--local", "-D", "novalue").exit_code == 2
    assert cli("fly").exit_code == 2
