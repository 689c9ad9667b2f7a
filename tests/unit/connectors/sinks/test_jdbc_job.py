"""Jobs that write to databases, run in this process: output, restarts, guarantees."""

import pytest
from tests.unit.connectors.sinks.databases import MODES

import millstream as ms
from millstream.errors import CheckpointRefused, InvalidSchema, InvalidStep
from millstream.model.schema import schema_of

SCHEMA = "id long, name string"
ROWS = [{"id": number, "name": f"n{number}"} for number in range(200)]


def job_of(sink, content=ROWS, **settings):
    """A job whose rows pass a shuffle, so that several tasks write."""
    options = {"keys": ["id"]} if sink.mode == "upsert" else {}
    job = ms.Job("shop", **settings)
    job.source("rows", ms.memory(content), schema=SCHEMA).rebalance().sink(
        "out", ms.jdbc(sink.url, table=sink.table, mode=sink.mode, **options)
    )
    return job


def shown(sink):
    return sorted(sink.visible(schema_of(SCHEMA)), key=lambda row: row["id"])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("guarantee", ["exactly_once", "effectively_once", "at_least_once", "best_effort"])
def test_a_job_writes_its_rows_once(open_sink, tmp_path, mode, guarantee):
    sink = open_sink(mode=mode)
    kept = {} if guarantee == "best_effort" else {"checkpoint": tmp_path / "checkpoint"}
    job_of(sink, guarantee=guarantee).run(local=True, **kept)
    assert shown(sink) == ROWS


def test_a_finished_job_that_runs_again_writes_nothing(open_sink, tmp_path):
    sink = open_sink()
    for _ in range(2):
        job_of(sink).run(local=True, checkpoint=tmp_path / "checkpoint")
    assert shown(sink) == ROWS


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("where", ["staged", "durable", "sink_transaction", "published"])
def test_a_crash_between_two_steps(open_sink, tmp_path, failpoints, mode, where):
    sink = open_sink(mode=mode)
    failpoints(f"{where}:1:raise")
    with pytest.raises(BaseException, match=where):
        job_of(sink).run(local=True, checkpoint=tmp_path / "checkpoint")
    failpoints("")
    job_of(sink).run(local=True, checkpoint=tmp_path / "checkpoint")
    assert shown(sink) == ROWS
    assert sink.staged() == 0


def test_a_table_that_does_not_fit_stops_the_job_before_it_starts(open_sink, tmp_path):
    sink = open_sink()
    sink.execute("CREATE TABLE target (id bigint)")
    with pytest.raises(InvalidSchema) as refused:
        job_of(sink).run(local=True, checkpoint=tmp_path / "checkpoint")
    assert (refused.value.code, refused.value.step) == ("JDBC-005", "out")


def test_an_unknown_option_is_refused_where_the_sink_is_built():
    stream = ms.Job("shop").source("rows", ms.memory([]), schema=SCHEMA)
    with pytest.raises(InvalidStep, match="mode"):
        stream.sink("out", ms.jdbc("sqlite:///x.db", table="t", mode="merge"))


def test_changed_staging_stops_the_job(open_sink, tmp_path, failpoints):
    sink = open_sink()
    failpoints("durable:1:raise")
    with pytest.raises(BaseException, match="durable"):
        job_of(sink).run(local=True, checkpoint=tmp_path / "checkpoint")
    failpoints("")
    assert sink.lose_staged()
    with pytest.raises(CheckpointRefused) as refused:
        job_of(sink).run(local=True, checkpoint=tmp_path / "checkpoint")
    assert refused.value.code == "JDBC-010"
    assert shown(sink) == []
