"""Text and Mermaid of every layer."""

import re

import numpy as np
import pytest
from tests.unit.plan.portable_jobs import JOBS, expressions, keyed, python_steps, rows, several_sources, windows

import millstream as ms
from millstream.errors import InvalidPlan
from millstream.plan.deployment import Deployment
from millstream.plan.explain import LAYERS, explain, key_group_ranges, mermaid
from millstream.records.key_groups import owner

LABEL = r'"(?:[^"<&`#]|<br/>|#\w+;)*"'
LINES = (
    r"flowchart LR",
    rf" +subgraph g\d+\[{LABEL}\]",
    r" +end",
    rf" +n\d+(?:\[{LABEL}\]|\[\[{LABEL}\]\])",
    rf"  n\d+ -->\|{LABEL}\| n\d+",
)


def block(text, step):
    """The lines about one step of the stream layer."""
    return next(part for part in text.split("\n\n") if part.startswith(f"{step}: "))


@pytest.mark.parametrize(
    ("build", "step", "how"),
    [
        (expressions, "orders", "source"),
        (expressions, "chosen", "select, runs as expression"),
        (expressions, "out", "sink"),
        (python_steps, "orders.map", "python, runs as python"),
        (python_steps, "orders.map.flat_map.filter_rows.map_batches", "map_batches, runs as batch"),
        (windows, "t", "window, runs as keyed"),
    ],
)
def test_stream_layer_says_how_each_step_runs(build, step, how):
    text = explain(build().compile(), "stream")
    shown = block(text, step).splitlines()[0]
    assert shown in {f"{step}: {how}", f"{step}: {how.replace('python, runs as python', 'python')}"}


def test_stream_layer_shows_keys_window_schema_and_state():
    text = explain(windows().compile(), "stream")
    window = block(text, "t")
    assert "keys       user" in window
    assert "window     tumbling(1m, offset 5s), allowed lateness 10s" in window
    assert "does       total = sum(amount), n = count()" in window
    assert "schema     user string, window_start timestamp not null" in window
    assert "late →     user string, amount double" in window
    assert "session(gap 1m 30s)" in block(text, "g")
    count = block(explain(keyed().compile(), "stream"), "count")
    assert "seen: value of int, kept 1h" in count
    assert "names: map of str -> int" in count
    assert "on error   dead_letter" in count


def test_a_derived_id_of_a_stateful_step_is_a_warning():
    text = explain(keyed().compile(), "stream")
    assert "id         derived from its path; give id= before you rely on its state" in block(text, "orders.aggregate")
    assert "id         given" in block(text, "sum")
    assert "id         derived from its path\n" in block(explain(expressions().compile(), "stream"), "orders.filter")


def test_functions_say_how_another_process_gets_them():
    job = ms.Job("job")
    rows(job).map(lambda row: row, schema="a int", id="m").sink("out", ms.collect("x"))
    assert "(sent with the job)" in block(explain(job.compile(), "stream"), "m")
    imported = block(explain(python_steps().compile(), "stream"), "orders.map")
    assert re.search(r"portable_jobs:same at portable_jobs.py:\d+ \(imported by name\)", imported)


def test_job_layer_shows_chains_and_their_inputs():
    text = explain(keyed().compile(), "job")
    assert "chain deep: deep → deep\n" not in text
    assert "chain sum: sum → r\n  in   orders, hash(user)\n" in text
    assert "  in   count.side, forward" in text


def test_partitioned_layer_shows_where_everything_runs():
    layers = windows().compile()
    text = explain(layers)
    assert "parallelism  5 subtasks" in text
    assert "key groups   32; by subtask 0: 0-5, 1: 6-11, 2: 12-18, 3: 19-24, 4: 25-31" in text
    assert "shuffles     1" in text
    assert "acknowledge  level 0: every split; level 1: subtasks 0-4" in text
    assert f"fingerprint  {layers.partitioned.fingerprint.whole}" in text
    assert "port 0: timed.main → t, hash(user), level 0 → 1" in text
    assert "t.late → t-late, forward, inside the task" in text


@pytest.mark.parametrize(("groups", "parallelism"), [(128, 2), (128, 7), (32, 5), (3, 3), (128, 128), (5, 1)])
def test_key_group_ranges_are_those_of_the_runtime(groups, parallelism):
    job = ms.Job("job", parallelism=parallelism, max_parallelism=groups)
    rows(job).sink("out", ms.collect("x"))
    owners = owner(np.arange(groups), groups, parallelism).tolist()
    ranges = key_group_ranges(job.compile().partitioned)
    assert [i for i, (first, end) in enumerate(ranges) for _ in range(first, end)] == owners


def test_deployment_layer_shows_the_surroundings():
    choices = Deployment(master="local[3]", checkpoint="/data/c", state_backend="memory", confs=(("spark.x", "1"),))
    text = explain(several_sources().compile(choices), "deployment")
    for line in (
        "master       local[3]",
        "state        memory",
        "checkpoint   /data/c",
        "input        unbounded",
        "epochs       every 1s, at most 2000000 rows",
        "credit       left: 666666 rows per epoch, buffer",
        "conf         spark.x=1",
        "driver 1024 MiB",
    ):
        assert line in text
    assert "input        bounded" in explain(keyed().compile(), "deployment")
    assert "cannot be resumed" in explain(keyed().compile(), "deployment")


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("build", JOBS, ids=lambda build: build.__name__)
def test_mermaid_is_well_formed(build, layer):
    layers = build().compile()
    lines = mermaid(layers, layer).splitlines()
    assert lines[0] == "flowchart LR"
    for line in lines:
        assert any(re.fullmatch(form, line) for form in LINES), line
    assert sum("subgraph" in line for line in lines) == sum(line.strip() == "end" for line in lines)
    assert sum("-->" in line for line in lines) == sum(len(node.inputs) for node in layers.stream.nodes)
    drawn = re.findall(r"^ +(n\d+)\[", "\n".join(lines), re.MULTILINE)
    assert len(drawn) == len(set(drawn)) == len(layers.stream.nodes)


def test_mermaid_boxes_and_labels():
    layers = keyed().compile()
    assert "subgraph" not in mermaid(layers, "stream")
    assert mermaid(layers, "job").count('["chain ') == len(layers.job.vertices)
    partitioned = mermaid(layers, "partitioned")
    assert '["level 0, at most ' in partitioned
    assert '["level 2, 2 subtasks"]' in partitioned
    assert '-->|"hash(user, at)"|' in partitioned
    assert '-->|"side: forward"|' in partitioned
    assert '["keyed on local[*], rocksdb state, checkpoint none"]' in mermaid(layers, "deployment")


def test_mermaid_escapes_what_would_end_a_label():
    job = ms.Job("job")
    job.source("in", ms.memory([]), schema={'a"<#&`': "int"}).key_by('a"<#&`').aggregate(n=ms.count()).sink(
        "out", ms.collect("x")
    )
    assert '-->|"hash(a#quot;#lt;#35;#amp;#96;)"|' in mermaid(job.compile(), "job")


def test_unknown_layer():
    with pytest.raises(InvalidPlan, match="PLAN-050"):
        explain(keyed().compile(), "execution")
