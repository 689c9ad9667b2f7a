"""Job files: the same models as the Python API, the same refusals, with the place in the file."""

import json

import pytest
from tests.unit.plan import portable_jobs

import millstream as ms
from millstream.api.jobfile.load import load_job
from millstream.api.jobfile.written_step import WrittenStep, aggregates
from millstream.connectors.collect.sink import collected
from millstream.errors import InvalidExpression, InvalidPlan, InvalidSchema, InvalidStep

MODULE = "tests.unit.plan.portable_jobs"
EXPRESSIONS = """
job: expressions
guarantee: at_least_once
parallelism: 3
epoch_interval: 250ms
rows_per_epoch: 10
steps:
  - source: orders
    from: {memory: {rows: [{user: a, amount: 1.5, at: 1}]}}
    schema: user string, amount double, at long, tags array<string>
  - filter: amount > 0 AND user <> '"#<&`'
  - with_columns: {name: upper(user), amount: amount * 2}
  - select: [name, {total: amount + 1}]
    id: chosen
  - sink: out
    to: print
"""
PYTHON = f"""
job: python-steps
steps:
  - source: orders
    from: {{memory: {{rows: [{{user: a, amount: 1.5, at: 1}}]}}}}
    schema: {{user: string, amount: double, at: long, tags: array<string>}}
    on_error: skip
  - map: {MODULE}:same
    schema: user string, amount double, at long, tags array<string>
    on_error: {{dead_letter: {{collect: {{name: dead}}}}}}
  - flat_map: {MODULE}:twice
    schema: user string, amount double, at long, tags array<string>
  - filter: {{function: "{MODULE}:is_big"}}
    on_error: skip
  - map_batches: {MODULE}:batches
  - sink: out
    to: {{collect: {{name: o}}}}
"""
KEYED = f"""
job: keyed
steps:
  - source: orders
    from: {{memory: {{rows: [{{user: a, amount: 1.5, at: 1}}]}}}}
    schema: user string, amount double, at long, tags array<string>
  - aggregate: {{n: count(amount), last: last(at), k: count_distinct(at) filter (where (amount > 1))}}
    key_by: [user, at]
    emit: row
  - sink: a
    to: {{collect: {{name: a}}}}
  - reduce: {MODULE}:add
    input: orders
    key_by: user
    id: sum
  - sink: r
    to: {{collect: {{name: r}}}}
  - process: {MODULE}:Counter
    input: orders
    key_by: user
    schema: user string, n int
    outputs: {{side: x int}}
    on_error: {{dead_letter: {{collect: {{name: d}}}}}}
    id: count
  - sink: side
    input: count.side
    to: {{collect: {{name: s}}}}
  - aggregate: {{k: count()}}
    input: count
    key_by: n
    emit: end
    id: deep
  - sink: deep
    to: {{collect: {{name: k}}}}
"""
WINDOWS = f"""
job: windows
parallelism: 5
max_parallelism: 32
steps:
  - source: orders
    from: {{memory: {{rows: [{{user: a, amount: 1.5, at: 1}}]}}}}
    schema: user string, amount double, at long, tags array<string>
  - event_time: at
    max_delay: 5s
    idle_after: 1m
    id: timed
  - &window
    aggregate: {{total: sum(amount), n: count()}}
    input: timed
    key_by: user
    window: {{tumbling: 1m, offset: 5s}}
    allowed_lateness: 10s
    id: t
  - sink: t-out
    to: {{files: {{path: out/t, partition_by: [user]}}}}
  - sink: t-late
    input: t.late
    to: {{collect: {{name: t}}}}
  - <<: *window
    window: {{sliding: 1m, slide: 20s}}
    id: s
  - sink: s-out
    to: {{files: {{path: out/s, partition_by: [user]}}}}
  - sink: s-late
    input: s.late
    to: {{collect: {{name: s}}}}
  - <<: *window
    window: {{session: 90s}}
    id: g
  - sink: g-out
    to: {{files: {{path: out/g, partition_by: [user]}}}}
  - sink: g-late
    input: g.late
    to: {{collect: {{name: g}}}}
  - reduce: {MODULE}:add
    input: timed
    key_by: user
    window: {{tumbling: 1h}}
  - sink: r
    to: {{collect: {{name: r}}}}
  - process: {MODULE}:of_window
    input: timed
    key_by: user
    window: {{tumbling: 1h}}
    schema: user string, n int
  - sink: p
    to: {{collect: {{name: p}}}}
"""
SOURCES = """
job: several-sources
steps:
  - source: left
    from: {memory: {rows: [{user: a, amount: 1.5, at: 1}]}}
    schema: user string, amount double, at long, tags array<string>
  - source: right
    from: {memory: {rows: [{user: a, amount: 1.5, at: 1}]}}
    schema: user string, amount double, at long, tags array<string>
  - filter: amount > 0
    rebalance: true
  - union: [left, right.filter]
    id: both
  - aggregate: {n: count()}
    key_by: user
    id: n
  - sink: out
    to: {collect: {name: o}}
  - source: ticks
    from: {rate: {rows_per_second: 10}}
  - sink: ticks-out
    to: {collect: {name: t}}
"""
PAIRS = {
    "expressions": (EXPRESSIONS, portable_jobs.expressions),
    "python": (PYTHON, portable_jobs.python_steps),
    "keyed": (KEYED, portable_jobs.keyed),
    "windows": (WINDOWS, portable_jobs.windows),
    "sources": (SOURCES, portable_jobs.several_sources),
}


@pytest.mark.parametrize("name", PAIRS)
def test_a_file_and_python_give_equal_models_and_plans(name):
    text, build = PAIRS[name]
    from_file, from_python = load_job(text), build()
    assert from_file.model == from_python.model
    assert [(s.id, s.has_given_id) for s in from_file.model.steps] == [
        (s.id, s.has_given_id) for s in from_python.model.steps
    ]
    assert from_file.compile() == from_python.compile()


@pytest.mark.parametrize("name", PAIRS)
def test_the_canonical_json_is_a_job_file_too(name, tmp_path):
    job = PAIRS[name][1]()
    path = tmp_path / "job.json"
    path.write_text(json.dumps(job.to_json()))
    assert load_job(path).model == job.model


def test_the_same_steps_in_json():
    steps = [
        {"source": "ticks", "from": {"rate": {"rows_per_second": 10}}},
        {"sink": "out", "to": {"collect": {"name": "x"}}},
    ]
    assert load_job(json.dumps({"job": "j", "steps": steps})).compile().model.name == "j"


def test_inputs_is_another_way_to_write_a_union():
    other = SOURCES.replace("union: [left, right.filter]", "union:\n    inputs: [left, right.filter]")
    assert load_job(other).model == load_job(SOURCES).model


def test_a_selected_name_behind_an_expression_keeps_its_place():
    text = EXPRESSIONS.replace("[name, {total: amount + 1}]", "[name, {total: amount + 1}, user]")
    assert load_job(text).compile().stream.node("chosen").outputs["main"].names == ("name", "total", "user")


def test_a_file_runs(tmp_path):
    path = tmp_path / "job.yaml"
    path.write_text(
        """
job: instants
steps:
  - source: in
    from: {memory: {rows: [{user: a, at: 2024-01-01T00:00:00Z}, {user: b, at: 2024-01-02}]}}
    schema: user string, at timestamp
  - sink: out
    to: {collect: {name: declarative-instants}}
"""
    )
    load_job(path).run(local=True)
    assert [row["at"].isoformat() for row in collected("declarative-instants")] == [
        "2024-01-01T00:00:00+00:00",
        "2024-01-02T00:00:00+00:00",
    ]


@pytest.mark.parametrize(
    ("old", "new", "kind", "code", "place"),
    [
        ("sum(amount)", "sum(amout)", InvalidExpression, "EXPR-005", "step 3 (t), line 13"),
        ("sum(amount)", "median(amount)", InvalidStep, "DECL-006", "step 3 (t), line 13"),
        ("sum(amount)", "sum()", InvalidStep, "STEP-012", "step 3 (t), line 13"),
        ("key_by: user", "key_by: usr", InvalidStep, "STEP-042", "step 3 (t), line 13"),
        ("key_by: user", "key_by: 5", InvalidStep, "DECL-006", "step 3 (t), line 13"),
        ("total: sum", "id: sum", InvalidStep, "DECL-009", "step 3 (t), line 13"),
        ("max_delay: 5s", "max_delay: soon", InvalidStep, "STEP-004", "step 2 (timed), line 9"),
        ("max_delay: 5s", "max_dealy: 5s", InvalidStep, "DECL-004", "step 2 (timed), line 9"),
        ("event_time: at", "event_tiem: at", InvalidStep, "DECL-005", "step 2 (timed), line 9"),
        ("event_time: at", "event_time: at\n    filter: 'true'", InvalidStep, "DECL-005", "step 2 (timed), line 9"),
        ("event_time: at", "event_time: [at]", InvalidStep, "DECL-006", "step 2 (timed), line 9"),
        ("tumbling: 1m,", "hopping: 1m,", InvalidStep, "DECL-006", "step 3 (t), line 13"),
        ("sliding: 1m, slide: 20s", "sliding: 1m", InvalidStep, "DECL-006", "step 6 (s)"),
        ("sliding: 1m, slide: 20s", "sliding: 1m, slide: 25s", InvalidStep, "STEP-011", "step 6 (s)"),
        ("session: 90s", "session: 90s, offset: 1s", InvalidStep, "DECL-004", "step 9 (g)"),
        ("input: t.late", "input: t.lat", InvalidStep, "STEP-066", "step 5 (t-late), line 22"),
        ("input: t.late", "input: tt", InvalidStep, "DECL-007", "step 5 (t-late), line 22"),
        ("input: t.late", "input: [t]", InvalidStep, "DECL-006", "step 5 (t-late), line 22"),
        ("    input: t.late\n", "", InvalidStep, "DECL-008", "step 5 (t-late), line 22"),
        ("{name: t}", "{nmae: t}", InvalidStep, "CONN-003", "step 5 (t-late), line 22"),
        ("{collect: {name: t}}", "[collect]", InvalidStep, "DECL-006", "step 5 (t-late), line 22"),
        ("{collect: {name: t}}", "colect", InvalidStep, "CONN-001", "step 5 (t-late), line 22"),
        ("to: {collect: {name: t}}", "too: 1", InvalidStep, "DECL-004", "step 5 (t-late), line 22"),
        ("user string, amount", "user strng, amount", InvalidSchema, "SCHEMA-002", "step 1 (orders), line 6"),
        ("portable_jobs:add", "portable_jobs:ad", InvalidStep, "STEP-010", "step 12 (reduce)"),
        ("    window: {tumbling: 1h}\n", "    allowed_lateness: 1s\n", InvalidStep, "DECL-004", "step 12 (reduce)"),
        ("parallelism: 5", "parallelism: five", InvalidStep, "STEP-030", "in text"),
        ("parallelism: 5", "paralelism: 5", InvalidStep, "DECL-004", "in text"),
        ("job: windows", "job: a/b", InvalidStep, "STEP-003", "in text"),
    ],
)
def test_refusals_say_where_in_the_file(old, new, kind, code, place):
    assert old in WINDOWS
    with pytest.raises(kind) as caught:
        load_job(WINDOWS.replace(old, new, 1))
    assert caught.value.code == code
    assert place in caught.value.message
    assert caught.value.hint


def test_unknown_keys_list_the_known_ones():
    with pytest.raises(InvalidStep) as caught:
        load_job(WINDOWS.replace("idle_after", "idle_aftr"))
    known = (
        "align, event_time, id, idle_after, input, interval, max_delay, max_drift, on_error, rebalance, start_new_chain, "
        "uid, watermark"
    )
    assert caught.value.known == known


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("job: [\n", "DECL-002"),
        ('{"job": }', "DECL-002"),
        ("- a\n- b\n", "DECL-003"),
        ("job: x\n", "DECL-003"),
        ("job: x\nsteps: 5\n", "DECL-006"),
        ("job: x\nsteps: [5]\n", "DECL-006"),
        ("job: x\njob: y\nsteps: []\n", "DECL-002"),
        ('{"job": "x", "job": "y", "steps": []}', "DECL-002"),
        ("job: x\non: 1\nsteps: []\n", "DECL-002"),
        ("job: x\nsteps: !!set {a, b}\n", "DECL-002"),
        ("job: x\nsteps: &s [*s]\n", "DECL-002"),
        ("job: x\nsteps: !!python/object/apply:os.getcwd []\n", "DECL-002"),
        ("no/such/file.yaml", "DECL-001"),
        ('{"format": 7, "steps": []}', "PLAN-020"),
    ],
)
def test_what_is_not_a_job_file(text, code):
    with pytest.raises((InvalidPlan, InvalidStep)) as caught:
        load_job(text)
    assert caught.value.code == code


def test_aliases_cannot_stand_for_an_endless_file():
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9)]
    with pytest.raises(InvalidPlan, match="DECL-002"):
        load_job("\n".join(lines))


@pytest.mark.parametrize(
    ("text", "aggregate"),
    [
        ("count()", ms.count()),
        ("count_distinct(user)", ms.count_distinct("user")),
        ("count() filter (where amount > 1)", ms.count(where="amount > 1")),
        (
            "sum(abs(amount)) FILTER(WHERE (amount > 1) AND user = 'a')",
            ms.sum("abs(amount)", where="(amount > 1) AND user = 'a'"),
        ),
    ],
)
def test_aggregates_are_written_as_in_sql(text, aggregate):
    assert aggregates(WrittenStep(kind="aggregate", value={"x": text}, options={})) == {"x": aggregate}
