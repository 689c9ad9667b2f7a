"""What goes wrong in a worker reaches the user as one of our errors: step, file and line, value."""

import re
import traceback
from pathlib import Path

import pytest
from tests.unit.api.test_tracebacks import FAILING, frames, ran

import millstream as ms
from millstream.errors import ExternalFailure, InvalidSchema, StepFailed

pytestmark = pytest.mark.spark


def divide(row):
    return {"a": 10 // row["a"]}


def run(build):
    job = ms.Job("errors")
    rows = job.source("rows", ms.memory([{"a": 5}, {"a": 0}]), schema="a long")
    build(rows).sink("out", ms.collect("errors"))
    job.run(master="local[2]")


def test_a_failing_function_names_step_line_and_record(spark):
    with pytest.raises(StepFailed) as caught:
        run(lambda rows: rows.map(divide, schema="a long", id="divide"))
    error = caught.value
    assert error.step == "divide"
    assert "ZeroDivisionError" in error.message
    assert f"test_errors.py:{divide.__code__.co_firstlineno + 1} in divide" in error.message
    assert '{"a": 0}' in error.found
    assert "on_error" in error.hint


def test_the_account_of_a_worker_is_the_users_function_alone(spark, monkeypatch):
    monkeypatch.delenv("MILLSTREAM_DEBUG", raising=False)
    with pytest.raises(StepFailed) as caught:
        run(lambda rows: rows.map(divide, schema="a long", id="divide"))
    shown = "".join(traceback.format_exception(caught.value))
    files = re.findall(r'File "([^"]+)", line \d+, in (\w+)', shown)
    assert [name for file, name in files if Path(file).name == "test_errors.py"][0] == "divide"
    assert [name for file, name in files if file.startswith(str(Path(ms.__file__).parent))] == ["run"]
    assert "ZeroDivisionError: integer division or modulo by zero\n\nThe above exception was the direct cause" in shown
    assert "py4j" not in shown
    assert "pyspark" not in shown


def test_a_row_that_does_not_fit_the_schema_names_column_and_types(spark):
    with pytest.raises(StepFailed) as caught:
        run(lambda rows: rows.map(lambda row: {"b": "text"}, schema="b long", id="wrong"))
    assert caught.value.step == "wrong"
    assert "b" in str(caught.value)
    assert "long" in str(caught.value)
    assert "text" in str(caught.value)


def test_an_expression_that_fails_on_a_value_names_the_step(spark):
    with pytest.raises(StepFailed) as caught:
        run(lambda rows: rows.select(b="10 / a", id="ratio"))
    assert caught.value.step == "ratio"


def test_a_failing_keyed_function_names_the_key_row(spark):
    class Fails(ms.ProcessFunction):
        def process(self, row, ctx):
            yield {"a": 1 // row["a"]}

    with pytest.raises(StepFailed) as caught:
        run(lambda rows: rows.key_by("a").process(Fails, schema="a long", id="keyed"))
    assert caught.value.step == "keyed"
    assert '{"a": 0}' in caught.value.found


def test_a_planner_problem_is_raised_as_it_was(spark, tmp_path):
    job = ms.Job("gone")
    job.source("rows", ms.files(str(tmp_path / "absent"), format="json"), schema="a long").sink(
        "out", ms.collect("gone")
    )
    with pytest.raises((ExternalFailure, InvalidSchema)) as caught:
        job.run(master="local[2]")
    assert "absent" in str(caught.value)


def test_a_script_shows_the_users_function_and_the_public_call(tmp_path):
    """What a person sees who runs a file on Spark: no session of the test, no frames of Spark's."""
    shown = ran(tmp_path, FAILING + 'job.run(master="local[1]")\n')
    assert frames(shown) == ["broken", "<module>", "[run]"]
    assert "KeyError: 'usr'\n\nThe above exception was the direct cause" in shown
    assert "[RUN-001] step 'orders.map': KeyError: 'usr' at job.py:6 in broken" in shown
