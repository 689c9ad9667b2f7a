"""`--log-level` and `--log-format`: quiet by default, one object per line on request, nothing on stdout."""

import json
import logging

from tests.canary import SECRET


def test_nothing_by_default(cli, job_file):
    result = cli("run", job_file, "--local", "-o", "quiet")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")


def test_json_lines(cli, job_file):
    result = cli("run", job_file, "--local", "-o", "quiet", "--log-level", "info", "--log-format", "json")
    lines = [json.loads(line) for line in result.stderr.splitlines()]
    assert [line["event"].split(" job=")[0] for line in lines] == [
        "run started",
        "epoch published",
        "epoch published",
        "run ended",
    ]
    first = lines[0]
    assert (first["level"], first["logger"], first["job"], first["token"]) == ("info", "millstream.run", "orders", 1)
    assert {"at", "run", "lineage", "epoch", "engine"} <= first.keys()
    assert lines[-1]["ended"] == "finished"
    assert result.stdout == ""


def test_text_lines(cli, job_file):
    result = cli("run", job_file, "--local", "-o", "quiet", "--log-level", "info")
    first = result.stderr.splitlines()[0]
    assert " INFO millstream.run run started job=orders run=" in first


def test_levels(cli, job_file, tmp_path, failpoints):
    failpoints("durable:1:raise")
    options = ("-o", "quiet", "--checkpoint", tmp_path / "c", "--tolerate-failures", "2")
    result = cli("run", job_file, "--local", *options)
    assert result.exit_code == 0, result.stderr
    (line,) = result.stderr.splitlines()
    assert " WARNING millstream.recovery run restarts job=orders " in line
    failpoints("durable:1:raise")
    assert cli("run", job_file, "--local", *options, "--log-level", "error").stderr == ""
    assert cli("run", job_file, "--local", "--log-level", "loud").exit_code == 2


def test_a_failure_is_told_once_by_default(cli, job_file):
    job_file.write_text(job_file.read_text().replace('"amount > 0"', 'lambda row: row["amout"] > 0'))
    plain = cli("run", job_file, "--local").stderr
    assert plain.startswith("error [RUN-001]")
    assert "run failed" not in plain
    logged = cli("run", job_file, "--local", "--log-level", "error", "--log-format", "json").stderr.splitlines()[0]
    assert json.loads(logged)["code"] == "RUN-001"


def test_the_loggers_are_left_as_they_were(cli, job_file):
    logger = logging.getLogger("millstream")
    before = (list(logger.handlers), logger.level)
    cli("run", job_file, "--local", "--log-level", "debug")
    assert (list(logger.handlers), logger.level) == before


def test_no_line_shows_a_password(cli, job_file, tmp_path):
    sink = f'ms.jdbc("postgresql://me:{SECRET}@127.0.0.1:1/none", table="t")'
    job_file.write_text(job_file.read_text().replace('ms.collect("cli-orders")', sink))
    job_file.write_text(
        f"from millstream.connectors.jdbc import database\ndatabase.PATIENCE = 0.1\n{job_file.read_text()}"
    )
    for form in ("text", "json"):
        result = cli("run", job_file, "--local", "--log-level", "debug", "--log-format", form, "--debug")
        assert (result.exit_code, "JDBC-002" in result.stderr) == (4, True)
        assert SECRET not in result.output
