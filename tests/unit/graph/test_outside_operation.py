"""An operation of another package is planned, shown, written, read back and fingerprinted like one of ours."""

import dataclasses
import json
from fractions import Fraction

import pytest
from tests.unit.graph.outside_operations import Named, Rule, Sample, pick

import millstream as ms
from millstream.errors import InvalidStep
from millstream.graph.function import function_ref
from millstream.graph.model import StreamModel
from millstream.graph.operation import Operation
from millstream.graph.operations.catalogue import OPERATIONS, operation_class
from millstream.graph.serialize import model_from_json, model_to_json
from millstream.graph.step import MAIN, Step, StepInput
from millstream.model.schema import schema_of
from millstream.plan.compile import compile_job
from millstream.plan.explain import LAYERS, explain, mermaid
from millstream.plan.serialize import from_json, to_json

KIND = "tests.unit.graph.outside_operations:Sample"
SAMPLE = Sample(
    share=Fraction(1, 3),
    where="amount > 1",
    late=schema_of("user string"),
    pick=function_ref(pick),
    rules=(Rule(column="user", least=2),),
    columns=(("a", "b"),),
    label="a third",
)


def model_of(operation, schema="user string, amount long, at long"):
    """A source, the operation behind a key where it is keyed, and a sink."""
    job = ms.Job("outside")
    source = job.source("in", ms.memory([]), schema=schema)
    source.sink("all", ms.collect("all"))
    steps = list(job.model.steps)
    edge = {"partition": "hash", "keys": ("user",)} if operation.is_keyed else {}
    steps.insert(1, Step(id="step", operation=operation, inputs=(StepInput(step="in", **edge),)))
    sink = dataclasses.replace(steps[-1], id="kept", inputs=(StepInput(step="step"),))
    return StreamModel(name="outside", steps=(*steps, sink))


def fingerprint(operation):
    return compile_job(model_of(operation)).partitioned.fingerprint.steps["step"]


def test_its_kind_is_its_place_unless_it_says_another():
    assert Sample.kind == KIND
    assert Named.kind == "named"


def test_it_is_resolved_by_what_it_gives():
    node = compile_job(model_of(SAMPLE)).stream.node("step")
    assert node.runs_as == "keyed"
    assert list(node.outputs) == [MAIN, "late"]
    assert dict(node.expressions)["where"].columns == ("amount",)


def test_plans_show_it_in_text_and_in_flowcharts():
    layers = compile_job(model_of(SAMPLE))
    text = explain(layers, "stream")
    assert f"step: {KIND}, runs as keyed" in text
    assert "does       1/3 of the rows where amount > 1" in text
    assert "label      a third" in text
    for layer in LAYERS:
        assert f"step<br/>{KIND}, runs as keyed" in mermaid(layers, layer)
        assert explain(layers, layer)


@pytest.mark.parametrize("layer", LAYERS)
def test_every_layer_survives_json(layer):
    layers = compile_job(model_of(SAMPLE))
    text = json.dumps(to_json(layers, layer))
    back = from_json(json.loads(text))
    assert back == layers
    assert json.dumps(to_json(back, layer)) == text


def test_its_fields_are_written_like_ours():
    step = model_to_json(model_of(SAMPLE))["steps"][1]
    assert step["kind"] == KIND
    assert step["share"] == "1/3"
    assert step["late"] == "user string"
    assert step["rules"] == [{"column": "user", "least": 2}]
    assert step["pick"] == "tests.unit.graph.outside_operations:pick"


def test_what_it_stores_decides_about_its_fingerprint():
    assert fingerprint(SAMPLE) == fingerprint(dataclasses.replace(SAMPLE, label="other", where="amount > 2"))
    assert fingerprint(SAMPLE) != fingerprint(dataclasses.replace(SAMPLE, share=Fraction(1, 2)))
    assert fingerprint(SAMPLE) != fingerprint(dataclasses.replace(SAMPLE, where="at > 2"))


def test_it_refuses_what_it_cannot_take():
    with pytest.raises(InvalidStep, match=r"SAMPLE-001.*step 'step'"):
        compile_job(model_of(SAMPLE, schema="user string, amount long"))
    with pytest.raises(InvalidStep, match="STEP-022"):
        Step(id="step", operation=SAMPLE, inputs=(StepInput(step="in"),))
    with pytest.raises(InvalidStep, match=r"STEP-021.*takes one input"):
        Step(id="step", operation=SAMPLE)


def changed(**fields):
    written = model_to_json(model_of(SAMPLE))
    written["steps"][1] |= fields
    return written


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"kind": "nothing"}, "STEP-051"),
        ({"kind": ["nothing"]}, "STEP-051"),
        ({"kind": "no.such.module:Sample"}, "STEP-055"),
        ({"kind": "tests.unit.graph.outside_operations:Missing"}, "STEP-055"),
        ({"kind": ":Sample"}, "STEP-055"),
        ({"kind": "tests.unit.graph.outside_operations:pick"}, "STEP-056"),
        ({"kind": "tests.unit.graph.outside_operations:Rule"}, "STEP-056"),
        ({"kind": "tests.unit.graph.outside_operations:Unfinished"}, "STEP-056"),
        ({"kind": "millstream.graph.operation:Operation"}, "STEP-056"),
        ({"surplus": 1}, "STEP-052"),
        ({"where": None}, "STEP-053"),
        ({"where": 1}, "STEP-054"),
        ({"rules": 1}, "STEP-054"),
        ({"rules": [{"column": 1}]}, "STEP-054"),
        ({"columns": ["ab"]}, "STEP-054"),
        ({"pick": "no.such:function"}, "STEP-010"),
    ],
)
def test_a_definition_that_names_no_operation_or_wrong_fields_is_refused(fields, code):
    with pytest.raises(InvalidStep, match=rf"{code}.*step 'step'"):
        model_from_json(changed(**fields))


def test_what_another_process_could_not_load_is_not_written():
    @dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
    class Local(Named):
        """Cannot be named."""

    for hidden in (Local(), Named()):
        with pytest.raises(InvalidStep, match="STEP-057"):
            model_to_json(model_of(hidden))
        assert model_to_json(model_of(hidden), portable=False)["steps"][1]["kind"] == hidden.kind


def test_its_fields_leave_the_names_of_steps_alone():
    with pytest.raises(InvalidStep, match=r"STEP-058.*Clashing.*found id, inputs"):

        class Clashing(Operation):
            runs_as = "batch"
            id: str
            inputs: int


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A package that brings an operation by name."""

    def install(*lines):
        info = tmp_path / "sampling-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: sampling\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text("\n".join(["[millstream.operations]", *lines]))
        monkeypatch.syspath_prepend(tmp_path)

    return install


def test_an_entry_point_brings_it_by_name(installed):
    installed("named = tests.unit.graph.outside_operations:Named")
    model = model_of(Named())
    assert model_from_json(json.loads(json.dumps(model_to_json(model)))) == model
    with pytest.raises(InvalidStep, match=r"STEP-051.*known: .*filter.*named"):
        operation_class("nothing")


def test_a_name_of_ours_cannot_be_taken(installed):
    installed("filter = tests.unit.graph.outside_operations:Named")
    assert operation_class("filter") is OPERATIONS["filter"]
    assert operation_class("filter") is not Named


def test_an_entry_point_that_leads_nowhere_is_refused(installed):
    installed("named = tests.unit.graph.outside_operations:Nothing")
    with pytest.raises(InvalidStep, match=r"STEP-055.*'named' cannot be loaded"):
        operation_class("named")


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_ours_declare_what_every_operation_declares(operation):
    assert issubclass(operation, Operation)
    assert operation.__slots__ == tuple(field.name for field in dataclasses.fields(operation))
    assert operation.runs_as in {"source", "expression", "batch", "python", "keyed", "sink"}
    assert operation.operator == "", "ours stand in the table of the runtime"
    assert operation_class(f"{operation.__module__}:{operation.__qualname__}") is operation
