"""The original shape of a definition becomes a job of ordinary steps, and runs."""

import json
import sqlite3

import pytest

import millstream as ms
from millstream.api.jobfile.dag import Beside, normalised
from millstream.api.jobfile.document import parsed_document
from millstream.connectors.collect.sink import clear, collected
from millstream.errors import InvalidExpression, InvalidPlan, InvalidStep

MODULE = "tests.unit.api.dag_functions"
ORIGINAL = {
    "source": {"type": "kafka", "config": {"topic": "events"}},
    "operators": [{"type": "map", "function": "parseEvent"}, {"type": "filter", "condition": "isValid"}],
    "sink": {"type": "jdbc", "config": {"table": "results"}},
    "checkpoint_interval": 60000,
}
ROWS = [{"value": "ann:3"}, {"value": "bob"}, {"value": "cid:0"}, {"value": "ann:4"}]
IN_MEMORY = {"type": "memory", "config": {"rows": ROWS, "schema": "value string"}}


def steps_of(definition, **beside):
    return normalised(parsed_document(json.dumps(definition), "text"), Beside(name="job", **beside)).document.content


def load(definition, **options):
    return ms.load_job(json.dumps(definition), **{"name": "job", "module": MODULE, **options})


def rows_of(operators, **options):
    clear("dag")
    sink = {"type": "collect", "config": {"name": "dag"}}
    load({"source": IN_MEMORY, "operators": operators, "sink": sink}, **options).run(local=True)
    return collected("dag")


def test_the_original_example_becomes_steps():
    assert steps_of(ORIGINAL, module=MODULE, connectors={"kafka": {"servers": "here:9092", "start": "earliest"}}) == {
        "job": "job",
        "epoch_interval": "60000ms",
        "steps": [
            {
                "source": "source",
                "from": {
                    "kafka": {"servers": "here:9092", "start": "earliest", "topics": ["events"], "format": "raw"},
                },
            },
            {"map": f"{MODULE}:parseEvent"},
            {"filter": {"function": f"{MODULE}:isValid"}},
            {"sink": "sink", "to": {"jdbc": {"table": "results"}}},
        ],
    }


def test_what_the_original_example_leaves_open_is_named():
    with pytest.raises(InvalidStep) as refused:
        load({**ORIGINAL, "source": IN_MEMORY})
    assert refused.value.code == "CONN-004"
    assert "connector 'jdbc' needs option 'url' (in text, step 4 (sink))" in refused.value.message


def test_the_same_shape_over_other_connectors_runs(tmp_path):
    url = f"sqlite:///{tmp_path / 'results.db'}"
    job = load({**ORIGINAL, "source": IN_MEMORY}, connectors={"jdbc": {"url": url}})
    assert job.model.requirements.epoch_interval == 60_000
    assert job.run(local=True).rows_out == 2
    with sqlite3.connect(tmp_path / "results.db") as database:
        assert sorted(database.execute('SELECT * FROM "results"')) == [("ann", 3), ("ann", 4)]


def test_a_file_names_its_job_and_its_module(tmp_path):
    file = tmp_path / "orders.json"
    sink = {"type": "files", "config": {"directory": str(tmp_path / "out"), "format": "json"}}
    file.write_text(json.dumps({**ORIGINAL, "module": MODULE, "source": IN_MEMORY, "sink": sink}))
    job = ms.load_job(file)
    assert job.name == "orders"
    job.run(local=True)
    assert ms.read_files(tmp_path / "out").column("amount").to_pylist() == [3, 4]


def test_a_condition_that_is_no_function_is_an_expression():
    parse = {"type": "map", "function": "parseEvent"}
    assert rows_of([parse, {"type": "filter", "condition": "amount > 3"}]) == [{"user": "ann", "amount": 4}]
    # A name of the module that is no function is a column all the same.
    flag = {"type": "withColumns", "columns": {"amount": "amount > 0", "of": "amount"}}
    kept = rows_of([parse, flag, {"type": "filter", "condition": "amount"}, {"type": "select", "columns": ["of"]}])
    assert kept == [{"of": 3}, {"of": 4}]
    assert rows_of([parse, {"type": "filter", "function": "isValid"}]) == rows_of(
        [parse, {"type": "filter", "condition": f"{MODULE}:isValid"}]
    )


def test_keys_and_windows_go_to_the_step_behind_them():
    totals = {"type": "aggregate", "aggregates": {"total": "sum(amount)"}, "emit": "end", "name": "totals"}
    parse = {"type": "map", "config": {"function": "parseEvent"}}
    rows = rows_of([parse, {"type": "keyBy", "keys": "user"}, totals])
    assert sorted(rows, key=lambda row: row["user"]) == [
        {"user": "ann", "total": 7},
        {"user": "bob", "total": 0},
        {"user": "cid", "total": 0},
    ]
    keyed = [{"type": "keyBy", "keys": ["user"]}, {"type": "window", "window": {"count": 2}, "trigger": {"count": 2}}]
    made = steps_of({**ORIGINAL, "operators": [*keyed, {"type": "reduce", "function": "parseEvent"}]}, module=MODULE)
    assert made["steps"][1] == {
        "reduce": f"{MODULE}:parseEvent",
        "key_by": ["user"],
        "window": {"count": 2},
        "trigger": {"count": 2},
    }


@pytest.mark.parametrize(
    ("changed", "options", "code", "part"),
    [
        ({"operators": [{"type": "map", "function": "parseEvent"}]}, {"module": None}, "DECL-010", "without a module"),
        ({"operators": [{"type": "map", "function": "parse"}]}, {}, "STEP-010", "cannot be imported"),
        ({}, {"module": "no_such_module_here"}, "DECL-010", "cannot be imported (in text, step 2 (map))"),
        ({"operators": [{"type": "join"}]}, {}, "DECL-005", "unknown type of operator (in text, step 2 (join))"),
        ({"operators": [{"type": "map"}]}, {}, "DECL-006", "operator 'map' needs 'function'"),
        ({"operators": [{"type": "keyBy", "keys": "user"}]}, {}, "DECL-011", "no operator behind 'key_by' takes them"),
        ({"operators": {"type": "map"}}, {}, "DECL-006", "operators is written in another form"),
        ({"checkpoint_interval": "1m"}, {}, "DECL-006", "checkpoint_interval is written in another form"),
        ({"source": {"config": {}}}, {}, "DECL-006", "the type of the source"),
        ({"steps_": []}, {}, "DECL-004", "has no key 'steps_'"),
        ({"sink": {"type": "files", "config": {"path": "a", "directory": "b"}}}, {}, "DECL-004", "is given twice"),
        ({}, {"name": None}, "DECL-003", "how its job is called"),
        ({}, {"connectors": {"jdbc": {"uri": "x"}}}, "CONN-003", "connector 'jdbc' has no option 'uri'"),
        ({"source": {"type": "nowhere"}}, {}, "CONN-001", "unknown connector (in text, step 1 (source))"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(changed, options, code, part):
    definition = {**ORIGINAL, "source": IN_MEMORY, **changed}
    with pytest.raises((InvalidStep, InvalidPlan)) as refused:
        load(definition, **options)
    assert refused.value.code == code
    assert part in refused.value.message


def test_a_definition_needs_a_source_and_a_sink():
    for part in ("source", "sink"):
        with pytest.raises(InvalidPlan, match=f"needs '{part}'") as refused:
            load({key: value for key, value in ORIGINAL.items() if key != part})
        assert refused.value.code == "DECL-003"


@pytest.mark.parametrize(("module", "hint"), [(None, "say in which module it is"), (MODULE, "or define 'valid' in")])
def test_a_condition_that_is_neither_says_what_it_could_be(module, hint):
    definition = {**ORIGINAL, "source": IN_MEMORY, "operators": [{"type": "filter", "condition": "valid"}]}
    with pytest.raises(InvalidExpression, match="unknown column 'valid'") as refused:
        load(definition, module=module)
    assert hint in refused.value.hint


def test_the_arguments_are_for_this_shape_alone():
    with pytest.raises(InvalidPlan, match="are for definitions with source, operators and sink") as refused:
        ms.load_job("job: other\nsteps: []\n", module=MODULE)
    assert refused.value.code == "DECL-004"
