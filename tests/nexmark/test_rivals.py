"""The runner of the comparison: its files, its table, what it keeps, and sides that fail. No JVM is started."""

import json
import sys
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from examples.nexmark.data import KINDS
from examples.nexmark.rivals import comparing, inputs, measuring, pyflink_install, pyflink_queries, spark_queries
from examples.nexmark.rivals.comparing import Comparison, Results, epoch_events_for, line
from examples.nexmark.rivals.expected import ALL_CHECKS, expected_values
from examples.nexmark.rivals.measuring import Measurement, measured, refusal, size_of, verdict
from examples.nexmark.rivals.process import ALL
from examples.nexmark.rivals.setting import Setting
from typer.testing import CliRunner

from millstream.cli.main import app

EVENTS = 4000
FAST = Measurement(seconds=2.0, cpu=3.0, resident=500_000_000, state=1_500_000, exactness="exact")
SLOW = Measurement(seconds=5.0, cpu=4.5, resident=900_000_000, exactness="exact", notes=("a note",))
FAILED = Measurement(failure="failed: no luck")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    root = tmp_path_factory.mktemp("nexmark-data")
    inputs.prepared(root, EVENTS, 500)
    return root


def comparison(data, **changes):
    plain = {"queries": ("q0", "q6"), "rivals": ("spark",), "events": EVENTS, "epoch_events": 1000}
    return Comparison(**{**plain, "data": data, **changes})


def setting(work, data, query="q0"):
    return Setting(
        query=query, events=EVENTS, epoch_events=1000, file_events=500, data=str(data), work=str(work / "side")
    )


# The files.


def test_files_are_in_the_order_of_time_by_name_and_by_change(data):
    files = sorted((data / "bid").glob("part-*.parquet"))
    assert len(files) == 8
    assert [path.stat().st_mtime for path in files] == sorted({path.stat().st_mtime for path in files})
    ids = pa.concat_tables([pq.ParquetFile(path).read(["event_id"]) for path in files])["event_id"].to_pylist()
    assert ids == sorted(ids)


def test_a_last_row_lies_beside_each_kind_and_is_newer(data):
    for kind in KINDS:
        [end] = (data / f"{kind}-end").glob("*.parquet")
        assert pq.read_table(end)["dateTime"][0].as_py().year == 2100
        assert end.stat().st_mtime > max(path.stat().st_mtime for path in (data / kind).glob("part-*"))


def test_halves_hold_the_same_rows_each_in_order(data):
    folder = inputs.halves(data)
    for kind in KINDS:
        first, second = (
            pq.ParquetFile(path).read()["event_id"].to_pylist() for path in sorted((folder / kind).iterdir())
        )
        assert first == sorted(first)
        assert second == sorted(second)
        files = sorted((data / kind).glob("part-*.parquet"))
        whole = pa.concat_tables([pq.ParquetFile(path).read() for path in files])["event_id"].to_pylist()
        assert sorted(first + second) == whole


@pytest.mark.parametrize("query", ["q3", "q5", "q9", "q18", "process"])
def test_a_query_over_files_gives_what_the_oracle_gives(query, data, tmp_path):
    requirements = {"rows_per_epoch": 1000}
    job = ALL[query].job(EVENTS, tmp_path, folder=data, epoch_events=1000, requirements=requirements)
    assert job.run(local=True).epochs == 5
    assert ALL_CHECKS[query].found(ALL[query].result(tmp_path)) == expected_values(query, EVENTS, data)


def test_expected_figures_are_computed_once(data, monkeypatch):
    first = expected_values("q22", EVENTS, data)
    monkeypatch.setattr("examples.nexmark.rivals.expected._computed", lambda *_: pytest.fail("computed again"))
    assert expected_values("q22", EVENTS, data) == first
    assert first[0] == EVENTS * 46 // 50


# Which queries a rival runs.


@pytest.mark.parametrize("module", [spark_queries, pyflink_queries])
def test_a_rival_runs_a_query_or_says_why_not(module):
    assert not set(module.QUERIES) & set(module.REFUSED)
    assert set(module.QUERIES) | set(module.REFUSED) == set(ALL)


def test_what_cannot_be_expressed_is_not_started(tmp_path, data):
    found = measured("spark", setting(tmp_path, data, "c0"), (Decimal(1),), timeout=5)
    assert found.failure == "cannot be expressed: Spark has no pattern matching"
    assert not (tmp_path / "side").exists()
    assert refusal("ours", "c0") == ""


# A side is a process.

SIDE = """
import json, sys, time
began = time.time()
while time.time() < began + 0.7:
    sum(range(1000))
{more}
answer = {{"began": began, "ended": time.time(), "start_up": 0.1, "found": ["7", "8"], "notes": []}}
open(sys.argv[1] + "/answer.json", "w").write(json.dumps(answer))
"""


@pytest.fixture
def side(tmp_path, monkeypatch, data):
    """Runs a few lines of Python in the place of an engine."""

    def run(more="", timeout=30.0):
        command = [sys.executable, "-c", SIDE.format(more=more)]
        monkeypatch.setattr(measuring, "command_of", lambda _, work: [*command, str(work)])
        return measured("spark", setting(tmp_path, data), (Decimal(7), Decimal(8)), timeout=timeout)

    return run


def test_a_side_is_measured_over_its_own_span(side):
    found = side()
    assert found.is_measured
    assert found.exactness == "exact"
    assert 0.5 < found.seconds < 5
    assert 0.1 < found.cpu <= found.seconds + 1
    assert found.resident > 5_000_000


def test_a_side_that_fails_says_its_last_words(side):
    found = side("raise RuntimeError('out of ' + 'luck')")
    assert found.failure == "failed: RuntimeError: out of luck"
    assert found.is_wrong


def test_a_side_that_hangs_is_given_up(side):
    assert side("time.sleep(60)", timeout=1.5).failure == "took more than 2 s"


def test_the_size_of_state_leaves_logs_out(tmp_path):
    (tmp_path / "state" / "0").mkdir(parents=True)
    (tmp_path / "state" / "0" / "a").write_bytes(b"x" * 100)
    (tmp_path / "offsets").write_bytes(b"x" * 7)
    assert size_of(tmp_path) == 100
    assert size_of(tmp_path / "state") == 100


def test_a_verdict_names_both_figures():
    assert verdict((Decimal(1), Decimal(2)), (Decimal(1), Decimal(2))) == "exact"
    assert verdict((Decimal(1), Decimal(3)), (Decimal(1), Decimal(2))).endswith(
        "1, 3 instead of 1, 2 (equal number of rows)"
    )
    assert verdict((Decimal(2),), (Decimal(1),)) == "differs: 2 instead of 1"


# The table.


def test_a_line_of_a_rival_has_both_ratios():
    assert line(("q0", "ours"), FAST, FAST, 1_000_000).split() == [
        "q0",
        "ours",
        "500,000",
        "3.0",
        "500",
        "1.5",
        "exact",
    ]
    theirs = line(("q0", "spark"), SLOW, FAST, 1_000_000)
    assert theirs.split() == ["q0", "spark", "200,000", "4.5", "900", "0.0", "2.50", "1.50", "exact;", "a", "note"]


def test_a_failure_stands_in_its_line():
    assert line(("q0", "spark"), FAILED, FAST, 10).split() == ["q0", "spark", "failed:", "no", "luck"]
    assert line(("q0", "spark"), SLOW, FAILED, 10).split()[6:] == ["exact;", "a", "note"]


def test_short_runs_have_several_epochs():
    assert [epoch_events_for(events) for events in (20, 20_000, 100_000, 5_000_000)] == [100, 4000, 20_000, 1_000_000]


@pytest.fixture
def sides(monkeypatch):
    """Measurements instead of engines; notes which were asked for."""
    asked = []

    def one(side, setting, expected, *, timeout):
        asked.append((setting.query, side))
        return {"ours": FAST, "spark": SLOW if setting.query == "q0" else FAILED}[side]

    monkeypatch.setattr(comparing, "measured", one)
    return asked


def test_every_side_of_every_query_is_a_line_and_failures_stop_nothing(data, sides):
    results = Results(None, {})
    lines = list(comparing.table(comparison(data), results))
    assert [entry.split()[:2] for entry in lines[1:-1]] == [
        ["q0", "ours"], ["q0", "spark"], ["q6", "ours"], ["q6", "spark"],
    ]  # fmt: skip
    assert "failed: no luck" in lines[4]
    assert comparing.wrong(comparison(data), results) == []


def test_a_later_run_goes_on_and_tries_again_what_failed(data, sides, tmp_path):
    path, what = tmp_path / "out" / "results.json", comparison(data)
    list(comparing.table(what, Results(path, what.settings)))
    sides.clear()
    more = comparison(data, queries=("q0", "q6", "q2"))
    lines = list(comparing.table(more, Results(path, more.settings)))
    assert sides == [("q6", "spark"), ("q2", "ours"), ("q2", "spark")]
    assert len(lines) == 8
    kept = json.loads(path.read_text())
    assert kept["results"]["q0"]["spark"]["seconds"] == 5.0
    assert kept["results"]["q2"]["spark"]["failure"] == "failed: no luck"


def test_a_rival_that_cannot_be_installed_is_reported_and_the_rest_goes_on(data, sides, monkeypatch):
    monkeypatch.setattr(pyflink_install, "PYTHON", data / "no" / "python")
    monkeypatch.setattr(pyflink_install, "_steps", lambda: [(False, ["no-such-program", "install"])])
    results = Results(None, {})
    list(comparing.table(comparison(data, rivals=("pyflink", "spark")), results))
    assert results.found["q0", "pyflink"].failure.startswith("PYFLINK IS NOT INSTALLED: no-such-program install: ")
    assert results.found["q0", "spark"] == SLOW


# The command.


def run(*arguments):
    return CliRunner().invoke(app, ["nexmark", "run", "--queries", "q0", "--events", str(EVENTS), *arguments])


def test_the_command_prints_the_table(sides, tmp_path):
    done = run("--rivals", "spark", "--data", str(tmp_path), "--out", str(tmp_path / "out.json"))
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    assert [entry.split()[:2] for entry in lines[1:3]] == [["q0", "ours"], ["q0", "spark"]]
    assert lines[-1] == "1 of 1 queries exact over 4,000 events"


def test_the_command_fails_when_ours_is_wrong(monkeypatch, tmp_path):
    monkeypatch.setattr(comparing, "measured", lambda *_, **__: FAILED)
    done = run("--rivals", "none", "--data", str(tmp_path))
    assert done.exit_code == 1
    assert done.output.splitlines()[-1] == "wrong or failed: q0"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--rivals", "storm"], "--rivals takes spark, pyflink"),
        (["--rivals", "spark", "--local"], "does not go with --local"),
        (["--rivals", "spark", "--input", "kafka"], "--input takes files, generator"),
    ],
)
def test_the_command_refuses_what_it_does_not_know(arguments, said):
    done = run(*arguments)
    assert done.exit_code == 2
    assert said in " ".join(done.output.replace("│", " ").split())


def test_measurements_of_another_run_are_not_mixed(sides, tmp_path):
    out = ["--rivals", "none", "--data", str(tmp_path), "--out", str(tmp_path / "out.json")]
    assert run(*out).exit_code == 0
    done = run(*out, "--epoch-events", "700")
    assert done.exit_code == 2
    assert "CLI-020" in done.output
