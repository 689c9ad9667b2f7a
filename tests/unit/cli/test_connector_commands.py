"""`millstream connectors`: what there is, what one takes, and a first look."""

import json

import pytest

from millstream.registry import names

JOB = """
import millstream as ms

def load(start, ctx):
    yield [{"n": 1}, {"n": 2}, {"n": "x"}], 1

job = ms.Job("looked", guarantee="at_least_once")
job.source("in", ms.loader(load), schema="n long", on_error="skip").sink("out", ms.files("OUT"))
job.source("quiet", ms.loader(lambda start, ctx: [], poll="1h"), schema="n long").sink("shown", ms.print())
"""


@pytest.fixture
def job(tmp_path):
    path = tmp_path / "looked_job.py"
    path.write_text(JOB.replace("OUT", str(tmp_path / "out")))
    return path


def test_connectors_are_listed(cli):
    result = cli("connectors", "ls")
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0].split()[:3] == ["connector", "source", "mode"]
    assert {line.split()[0] for line in lines[1:] if line[0] != " "} == set(names("connectors"))
    assert any("loader" in line and "BATCH_ROLLER" in line and "AT_LEAST_ONCE or REPLAYABLE" in line for line in lines)


def test_the_list_as_json_and_as_a_table_of_guarantees(cli):
    found = [json.loads(line) for line in cli("connectors", "ls", "--format", "json").stdout.splitlines()]
    assert [each["connector"] for each in found] == names("connectors")
    (kafka,) = [each for each in found if each["connector"] == "kafka"]
    assert {"name": "kafka", "when": "", "is_installed": True, "command": "pip install 'millstream[kafka]'"} in kafka[
        "extras"
    ]
    table = cli("connectors", "ls", "--format", "markdown").stdout
    assert table.startswith("| connector | capability | `exactly_once` |")


def test_a_connector_is_shown_with_options_and_promises(cli):
    result = cli("connectors", "show", "consumer")
    assert result.exit_code == 0, result.stderr
    for text in (
        "consumer, brought by millstream",
        "as a sink",
        "batch_rows",
        "10000",
        "required",
        "transactional=True",
    ):
        assert text in result.stdout
    found = json.loads(cli("connectors", "show", "jdbc", "--format", "json").stdout)
    assert [option["name"] for option in found["options"]["sink"]][:3] == ["url", "table", "mode"]
    assert [each["options"] for each in found["promises"] if each["role"] == "sink"][1] == {"mode": "upsert"}


def test_an_unknown_connector_names_the_known_ones(cli):
    result = cli("connectors", "show", "nothing")
    assert result.exit_code == 3
    assert "error [CONN-001] unknown connector" in result.stderr
    assert "consumer" in result.stderr


def test_the_first_rows_of_a_source_are_shown(cli, job):
    result = cli("connectors", "test", job, "in")
    assert result.exit_code == 0, result.stderr
    assert "source 'in': loader, 2 rows, 1 bad records" in result.stdout
    assert "bad record of looked_job:load behind null: column 'n' has a value of another type" in result.stdout
    limited = json.loads(cli("connectors", "test", job, "in", "--limit", "1", "--format", "json").stdout)
    assert limited["rows"] == [{"n": 1}]


def test_a_source_that_gives_nothing_in_time_ends_with_1(cli, job):
    result = cli("connectors", "test", job, "quiet", "--timeout", "200ms")
    assert (result.exit_code, "nothing came in time" in result.stdout) == (1, True)


def test_a_sink_is_looked_at(cli, job):
    result = cli("connectors", "test", job, "out")
    assert result.exit_code == 0, result.stderr
    assert "sink 'out': files" in result.stdout
    assert "is missing and will be created" in result.stdout
    assert "offers no look" in cli("connectors", "test", job, "shown").stdout
    assert json.loads(cli("connectors", "test", job, "shown", "--format", "json").stdout)["found"] is None


def test_a_step_that_is_not_there_is_named(cli, job):
    result = cli("connectors", "test", job, "nowhere")
    assert result.exit_code == 3
    assert "CONN-020" in result.stderr
