"""Every layer survives JSON: the same plan and the same JSON come back, and a changed plan is refused by name."""

import copy
import importlib.util
import json
import sys
from pathlib import Path

import pytest
from tests.unit.plan.portable_jobs import JOBS, rows, windows

import millstream as ms
from millstream.errors import InvalidPlan, InvalidStep
from millstream.plan.deployment import Deployment, MemoryBudget
from millstream.plan.explain import LAYERS
from millstream.plan.serialize import from_json, to_json

GOLDEN = [
    path
    for path in sorted((Path(__file__).parents[2] / "golden").glob("*/job.py"))
    if "EXPECT_ERROR" not in path.read_text(encoding="utf-8")
]
CHOICES = Deployment(
    master="spark://host:7077",
    checkpoint="/data/checkpoint",
    state_backend="memory",
    memory=MemoryBudget(page_bytes=10),
    confs=(("spark.b", "2"), ("spark.a", "1")),
)


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("build", JOBS, ids=lambda build: build.__name__)
def test_round_trip_of_every_layer(build, layer):
    layers = build().compile(CHOICES if layer == "deployment" else None)
    text = json.dumps(to_json(layers, layer))
    back = from_json(json.loads(text))
    assert back == layers
    assert json.dumps(to_json(back, layer)) == text


@pytest.mark.parametrize("build", JOBS, ids=lambda build: build.__name__)
def test_job_to_json_to_job_gives_an_equal_plan(build):
    job = build()
    back = ms.Job.from_json(json.loads(json.dumps(job.to_json())))
    assert back.model == job.model
    assert back.compile() == job.compile()
    assert back.to_json() == job.to_json()


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.parent.name)
def test_round_trip_of_the_golden_jobs(path, monkeypatch):
    name = f"golden_{path.parent.name}"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    layers = module.job().compile()
    if not all("@" not in part.name for part in layers.model.components):
        with pytest.raises(InvalidStep, match="STEP-050"):
            to_json(layers)
        return
    text = json.dumps(to_json(layers))
    assert from_json(json.loads(text)) == layers


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (lambda derived: derived["partitioned"]["levels"][1].append("x"), "derived.partitioned.levels[1]"),
        (
            lambda derived: derived["partitioned"]["fingerprint"].update(whole="0"),
            "derived.partitioned.fingerprint.whole",
        ),
        (
            lambda derived: derived["partitioned"]["ports"][0].update(policy="forward"),
            "derived.partitioned.ports[0].policy",
        ),
        (
            lambda derived: derived["stream"]["nodes"][0]["outputs"].update(main="a int"),
            "derived.stream.nodes[0].outputs.main",
        ),
        (lambda derived: derived["job"]["chains"][0].update(id="x"), "derived.job.chains[0].id"),
        (lambda derived: derived["deployment"]["flow"][0].update(credit=1), "derived.deployment.flow[0].credit"),
        (lambda derived: derived["deployment"].pop("is_bounded"), "derived.deployment.is_bounded"),
        (lambda derived: derived["deployment"].update(extra=1), "derived.deployment.extra"),
    ],
)
def test_a_derived_part_that_differs_is_named(change, place):
    value = copy.deepcopy(to_json(windows().compile()))
    change(value["derived"])
    with pytest.raises(InvalidPlan, match="PLAN-051") as caught:
        from_json(value)
    assert place in caught.value.message


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ([], "PLAN-052"),
        ({"format": 1}, "PLAN-052"),
        ({"format": 2, "layer": "job", "job": {}, "deployment": None, "derived": {}}, "PLAN-053"),
        ({"format": 1, "layer": "jbo", "job": {}, "deployment": None, "derived": {}}, "PLAN-050"),
        ({"format": 1, "layer": "job", "job": {}, "deployment": None, "derived": {}}, "PLAN-020"),
    ],
)
def test_what_is_not_a_plan_is_refused(value, code):
    with pytest.raises(InvalidPlan, match=code):
        from_json(value)


def test_a_lambda_is_only_written_for_people():
    job = ms.Job("job")
    rows(job).map(lambda row: row, schema="a int").sink("out", ms.collect("x"))
    with pytest.raises(InvalidStep, match="STEP-050"):
        to_json(job.compile())
    assert "<lambda>" in json.dumps(to_json(job.compile(), portable=False))
