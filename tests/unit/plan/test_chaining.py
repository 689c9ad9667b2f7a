"""Chains in the user's hand: parted vertices, the same levels, fingerprint and rows."""

import pytest

import millstream as ms
from millstream.errors import MillstreamError
from millstream.plan.compile import compile_job
from millstream.plan.explain import explain
from millstream.plan.serialize import from_json, to_json
from millstream.testing import run_job

ROWS = [{"k": "a" if n % 2 else "b", "n": n} for n in range(9)]


def same(row):
    return row


def build(*, parted=(), **options):
    job = ms.Job("chains", **options)
    stream = job.source("in", ms.memory([]), schema="k string, n long")
    stages = [
        ("map", lambda s: s.map(same, schema="k string, n long", id="map")),
        ("filter", lambda s: s.filter("n <> 4", id="filter")),
        ("sums", lambda s: s.key_by("k").aggregate(n=ms.sum("n"), emit="row", id="sums")),
        ("behind", lambda s: s.with_columns(m="n + 1", id="behind")),
    ]
    for name, stage in stages:
        stream = stage(stream)
        if name in parted:
            stream = stream.start_new_chain()
    stream.sink("out", ms.collect("x"))
    return job


def chains(job):
    return [[node.id for node in vertex.nodes] for vertex in job.compile().job.vertices]


def test_every_step_is_a_vertex_without_chaining():
    assert chains(build()) == [["in", "map", "filter"], ["sums", "behind", "out"]]
    assert chains(build(chaining=False)) == [["in"], ["map"], ["filter"], ["sums"], ["behind"], ["out"]]


def test_a_step_starts_a_chain_that_the_steps_behind_it_join():
    assert chains(build(parted=["map"])) == [["in"], ["map", "filter"], ["sums", "behind", "out"]]
    assert chains(build(parted=["filter", "behind"])) == [["in", "map"], ["filter"], ["sums"], ["behind", "out"]]
    assert chains(build(parted=["sums"])) == chains(build())


@pytest.mark.parametrize("job", [build(chaining=False), build(parted=["map", "filter", "sums", "behind"])])
def test_levels_shuffles_and_fingerprint_stay(job):
    fused, parted = build().compile().partitioned, job.compile().partitioned
    assert parted.fingerprint == fused.fingerprint
    assert parted.depth == fused.depth == 1
    assert all(edge.is_local for edge in parted.edges if not edge.edge.is_exchange)
    assert parted.acknowledgements == fused.acknowledgements


@pytest.mark.parametrize("job", [build(chaining=False), build(parted=["map", "behind"])])
def test_rows_and_counts_stay_and_the_load_of_each_vertex_is_seen(job):
    fused, parted = (run_job(each, {"in": ROWS}, rows_per_epoch=4) for each in (build(), job))
    assert parted["out"] == fused["out"]
    assert parted.counts == fused.counts
    heads = {vertex.id for vertex in job.compile().job.vertices}
    assert {name for summary in parted.epochs for name in summary.busy} == heads
    assert {name for summary in fused.epochs for name in summary.busy} == {"in", "sums"}


def test_the_plan_shows_it():
    assert "chaining" not in explain(build().compile())
    assert "chaining     off: every step is a vertex of its own" in explain(build(chaining=False).compile())
    shown = explain(build(parted=["map"]).compile(), "job")
    assert next(line for line in shown.splitlines() if "step map:" in line).endswith("starts a chain, as asked")
    assert "starts a chain" not in explain(build().compile(), "job")


@pytest.mark.parametrize("job", [build(chaining=False), build(parted=["map", "behind"])])
def test_it_survives_the_json_form(job):
    read = ms.Job.from_json(job.to_json())
    assert read.model == job.model
    assert chains(read) == chains(job)
    layers = compile_job(job.model)
    assert from_json(to_json(layers)).job == layers.job


def test_a_job_that_says_nothing_of_chains_reads_as_before():
    written = build().to_json()
    assert not any("starts_chain" in step for step in written["steps"])
    del written["requirements"]["chaining"]
    assert ms.Job.from_json(written).model == build().model


FILE = """
job: chains
chaining: {chaining}
steps:
  - source: in
    from: {{ memory: {{ rows: [] }} }}
    schema: k string, n long
  - filter: n <> 4
    id: one
    start_new_chain: {one}
  - with_columns: {{ m: n + 1 }}
    id: two
  - sink: out
    to: {{ collect: {{ name: x }} }}
"""


@pytest.mark.parametrize(
    ("chaining", "one", "found"),
    [
        ("true", "false", [["in", "one", "two", "out"]]),
        ("true", "true", [["in"], ["one", "two", "out"]]),
        ("false", "false", [["in"], ["one"], ["two"], ["out"]]),
    ],
)
def test_job_files_say_it_too(chaining, one, found):
    assert chains(ms.load_job(FILE.format(chaining=chaining, one=one))) == found


@pytest.mark.parametrize(("chaining", "one", "code"), [("maybe", "true", "STEP-030"), ("true", "maybe", "DECL-")])
def test_what_is_neither_true_nor_false_is_refused(chaining, one, code):
    with pytest.raises(MillstreamError, match=code):
        ms.load_job(FILE.format(chaining=chaining, one=one))
