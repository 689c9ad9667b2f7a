"""Which steps a statement becomes, what they are called, and that they are those one would write by hand."""

import pytest
from tests.unit.api.sql.streams import steps, streams

import millstream as ms
from millstream.api.jobfile.load import load_job
from millstream.errors import MillstreamError
from millstream.jobmaster.compatibility import compare, shape_of
from millstream.testing import run_job

TOTALS = """
    SELECT user, SUM(x) / COUNT(*) AS mean, window_start
    FROM TUMBLE(TABLE stream, DESCRIPTOR(at), INTERVAL '10' SECOND)
    WHERE x > 0 GROUP BY user, window_start, window_end HAVING COUNT(*) > 1
    """


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("SELECT user, x * 2 AS c FROM stream WHERE x > 0", ["q.where", "q"]),
        ("SELECT * FROM stream WHERE x > 0", ["q"]),
        ("SELECT * FROM stream", ["q"]),
        ("SELECT user FROM stream", ["q"]),
        ("SELECT DISTINCT user FROM stream WHERE x > 0", ["q.where", "q.select", "q"]),
        (TOTALS, ["q.where", "q", "q.having", "q.select"]),
        ("SELECT user, COUNT(*) AS n FROM stream GROUP BY user", ["q"]),
        ("SELECT upper(user) AS u, COUNT(*) AS n FROM stream GROUP BY 1", ["q.keys", "q"]),
        ("SELECT COUNT(*) AS n FROM stream", ["q.keys", "q", "q.select"]),
        ("SELECT a.user, b.w FROM stream a JOIN other b ON a.x = b.id", ["q", "q.select"]),
        (
            "SELECT a.user, COUNT(*) AS n FROM stream a JOIN other b ON a.x + 1 = b.id WHERE b.w > 1 GROUP BY a.user",
            ["q.join.right.where", "q.join.left", "q.join", "q"],
        ),
        (
            "SELECT * FROM (SELECT user, ROW_NUMBER() OVER (PARTITION BY user ORDER BY x) AS rn FROM stream) WHERE rn < 3",
            ["q", "q.ranked"],
        ),
        ("SELECT t.user FROM (SELECT * FROM stream WHERE x > 1) AS t", ["q.t", "q"]),
        ("WITH a AS (SELECT user FROM stream WHERE x > 0) SELECT DISTINCT user FROM a", ["q.a.where", "q.a", "q"]),
        ("SELECT user FROM stream UNION ALL SELECT upper(user) AS u FROM stream", ["q.1", "q.2", "q.2.names", "q"]),
    ],
)
def test_ids_derive_from_the_name_of_the_statement(text, ids):
    job, stream, other = streams()
    if "other" in text:
        job.sql(text, stream=stream, other=other, id="q")
    else:
        stream.sql(text, id="q")
    assert list(steps(job)) == ids


def test_a_statement_equals_the_steps_written_by_hand():
    by_sql, stream, _ = streams()
    stream.sql(TOTALS, id="q", allowed_lateness="5s").sink("out", ms.collect("out"))
    by_hand, stream, _ = streams()
    windows = stream.filter("x > 0", id="q.where").key_by("user").window(ms.tumbling("10s"), allowed_lateness="5s")
    made = windows.aggregate(sum_x=ms.sum("x"), count=ms.count(), id="q").filter("count > 1", id="q.having")
    made.select({"user": "user", "mean": "sum_x / count", "window_start": "window_start"}, id="q.select").sink(
        "out", ms.collect("out")
    )
    assert by_sql.model == by_hand.model
    assert by_sql.compile().partitioned.fingerprint == by_hand.compile().partitioned.fingerprint


def test_aggregates_keep_their_names_when_others_are_added():
    names = []
    for text in (
        "SELECT user, SUM(x) AS total, MAX(y) + 1 AS m FROM stream GROUP BY user",
        "SELECT user, MIN(y) - MAX(y) AS m, SUM(x) * 2 AS twice, SUM(x) AS total FROM stream GROUP BY user",
    ):
        job, stream, _ = streams()
        stream.sql(text, id="q")
        names.append({name: aggregate.text for name, aggregate in steps(job)["q"].aggregates})
    assert names[0] == {"total": "sum(x)", "max_y": "max(y)"}
    assert names[1] == names[0] | {"min_y": "min(y)"}


def test_a_statement_without_a_name_is_called_like_other_steps():
    job, stream, _ = streams()
    counted = stream.sql("SELECT COUNT(*) AS n FROM stream")
    assert counted.step == "timed.sql.select"
    counted.sink("out", ms.collect("out"))
    assert stream.sql("SELECT user FROM stream").step == "timed.sql-2"
    assert "timed.sql.select" in job.explain("stream")
    assert not next(step for step in job.model.steps if step.id == "timed.sql").has_given_id


def test_a_stream_may_be_called_like_the_statement_itself():
    job, stream, _ = streams()
    assert job.sql("SELECT user FROM text", text=stream, id="q").schema.names == ("user",)


def test_a_derived_name_follows_the_uid_of_its_input():
    job = ms.Job("renamed")
    stream = job.source("new", ms.memory([]), schema="user string", uid="old")
    stream.sql("SELECT DISTINCT user FROM stream")
    assert [(step.id, step.uid) for step in job.model.steps][-1] == ("new.sql", "old.sql")


def test_uid_names_the_state():
    job, stream, other = streams()
    text = "SELECT a.user, COUNT(*) AS n FROM stream a JOIN other b ON a.x = b.id GROUP BY a.user"
    job.sql(text, stream=stream, other=other, id="now", uid="before")
    uids = {step.id: step.uid for step in job.model.steps}
    assert (uids["now"], uids["now.join"]) == ("before", "before.join")


def test_late_rows_are_at_hand_behind_the_last_step():
    job, stream, _ = streams()
    totals = stream.sql(TOTALS, id="q")
    assert totals.late.schema == stream.schema
    with pytest.raises(MillstreamError) as caught:
        totals.side_output("nothing")
    assert caught.value.code == "STEP-066"
    with pytest.raises(MillstreamError):
        _ = stream.sql("SELECT user FROM stream").late
    assert job.model


def test_event_time_follows_a_column_through_steps():
    _, stream, _ = streams()
    window = "SELECT COUNT(*) AS n FROM stream GROUP BY window(moment, '1 second')"
    renamed = stream.filter("x > 0").select("user", moment="at").rebalance()
    assert renamed.sql(window).schema.names == ("n",)
    assert stream.select({"moment": "at"}).union(stream.select({"moment": "at"})).sql(window).schema.names == ("n",)
    windowed = stream.sql(
        "SELECT COUNT(*) AS n, window_time(window) AS moment FROM stream GROUP BY window(at, '1 second')"
    )
    assert windowed.sql(window).schema.names == ("n",)
    for lost in (
        stream.map(lambda row: {"moment": row["at"]}, schema="moment timestamp"),
        stream.select(moment="date_trunc('hour', at)"),
        stream.select({"moment": "at"}).union(stream.select(moment="timestamp_millis(x)")),
    ):
        with pytest.raises(MillstreamError) as caught:
            lost.sql(window)
        assert caught.value.code == "STEP-146"
        assert lost.event_time("moment").sql(window).schema.names == ("n",)


def test_a_job_survives_json():
    job, stream, other = streams()
    stream.sql(TOTALS, id="totals").sink("out", ms.collect("out"))
    job.sql(
        "SELECT a.*, b.w FROM stream a LEFT JOIN other b ON a.x = b.id AND a.at BETWEEN b.ts AND b.ts + INTERVAL '1' DAY",
        stream=stream,
        other=other,
        id="pairs",
    ).sink("pairs.out", ms.collect("pairs"))
    again = ms.Job.from_json(job.to_json())
    assert again.model == job.model
    assert again.compile().partitioned == job.compile().partitioned


YAML = """
job: statements
steps:
  - source: in
    from: {memory: {rows: []}}
    schema: user string, x long, at long
  - event_time: at
    id: timed
  - sql: |
      SELECT user, COUNT(*) AS n, window_end FROM stream GROUP BY user, window(at, '1 second')
    id: totals
    allowed_lateness: 1s
  - sink: out
    to: {collect: {name: out}}
  - sink: late
    input: totals.late
    to: {collect: {name: late}}
  - sql: SELECT t.user, t.x, r.n FROM rows t JOIN totals r ON t.user = r.user
    streams: {rows: timed, totals: totals}
    id: joined
  - sink: pairs
    to: {collect: {name: pairs}}
"""


def test_a_job_file_may_hold_statements():
    text = YAML.replace("window_end FROM", "window.end AS ends FROM")
    job = load_job(text)
    assert {"totals", "totals.select", "joined", "joined.select"} <= {step.id for step in job.model.steps}
    rows = [{"user": "a", "x": n, "at": n * 400} for n in range(4)] + [{"user": "b", "x": 9, "at": 9000}]
    output = run_job(job, {"in": rows})
    assert sorted((row["user"], row["n"]) for row in output["out"]) == [("a", 1), ("a", 3), ("b", 1)]
    assert sorted((row["user"], row["x"], row["n"]) for row in output["pairs"]) == sorted(
        [("a", x, n) for x in range(4) for n in (1, 3)] + [("b", 9, 1)]
    )


@pytest.mark.parametrize(
    ("step", "code"),
    [
        ("  - sql: SELECT user FROM stream\n    text: x", "DECL-004"),
        ("  - sql: 5", "DECL-006"),
        ("  - sql: SELECT user FROM a\n    streams: [in]", "DECL-006"),
        ("  - sql: SELECT user FROM a\n    streams: {a: nothing}", "DECL-007"),
        ("  - sql: SELECT user FROM emit\n    streams: {emit: in}", "DECL-009"),
        ("  - sql: SELECT user FROM a\n    streams: {a: in}\n    input: in", "DECL-004"),
        ("  - sql: SELECT nobody FROM stream", "STEP-143"),
    ],
)
def test_a_statement_in_a_job_file_is_refused_with_its_place(step, code):
    head = "job: j\nsteps:\n  - source: in\n    from: {memory: {rows: []}}\n    schema: user string\n"
    with pytest.raises(MillstreamError, match="line 6") as caught:
        load_job(head + step + "\n")
    assert caught.value.code == code


def kept(text):
    """What a job with this statement keeps in checkpoints."""
    job, stream, _ = streams()
    stream.sql(text, id="q").sink("out", ms.collect("out"))
    return shape_of(job.compile().deployment)


@pytest.mark.parametrize(
    ("changed", "verdict"),
    [
        (TOTALS.replace("x > 0", "x > 1 AND user <> ''"), "identical"),
        (TOTALS.replace("HAVING COUNT(*) > 1", "HAVING SUM(x) + COUNT(*) > 5"), "identical"),
        (TOTALS.replace("AS mean", "AS mean, COUNT(*) * 2 AS twice, window_time"), "identical"),
        (TOTALS.replace("GROUP BY user", "GROUP BY upper(user), user"), "incompatible"),
        (TOTALS.replace("'10' SECOND", "'20' SECOND"), "incompatible"),
    ],
)
def test_state_stays_while_its_own_part_of_the_statement_does(changed, verdict):
    found = {line.uid: line.level for line in compare(kept(TOTALS), kept(changed)).lines}
    assert found["q"] == verdict


FORMS = {
    "COUNT(*)": "count()",
    "count(1)": "count()",
    "COUNT(x)": "count(x)",
    "COUNT(DISTINCT x % 2)": "count_distinct(x % 2)",
    "MEAN(x)": "avg(x)",
    "Avg(stream.x)": "avg(x)",
    "FIRST(x) IGNORE NULLS": "first(x)",
    "first(x, true)": "first(x)",
    "FIRST_VALUE(x) IGNORE NULLS": "first(x)",
    "LAST_VALUE(x, TRUE) FILTER (WHERE y > 0)": "last(x) where y > 0",
    "LAST(x) FILTER (WHERE user IS NOT NULL) IGNORE NULLS": "last(x) where NOT user IS NULL",
    "MAX(CASE WHEN y > 0 THEN x END)": "max(CASE WHEN y > 0 THEN x END)",
}


@pytest.mark.parametrize("written", FORMS)
def test_aggregates_as_they_may_be_written(written):
    job, stream, _ = streams()
    stream.sql(f"SELECT user, {written} AS made FROM stream GROUP BY user", id="q")
    assert [(name, aggregate.text) for name, aggregate in steps(job)["q"].aggregates] == [("made", FORMS[written])]


def test_first_of_a_column_that_is_never_null_needs_no_words():
    stream = ms.Job("never-null").source("in", ms.memory([]), schema="k string, n long not null")
    assert stream.sql("SELECT k, FIRST(n) AS made FROM stream GROUP BY k").schema.names == ("k", "made")
