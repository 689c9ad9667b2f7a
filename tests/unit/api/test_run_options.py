"""What a run takes stands in one place: `run` and `start` show it, and pass all of it on."""

import ast
import dataclasses
import inspect
import textwrap

import pytest

import millstream as ms
from millstream.api.run_options import RunOptions

OPTIONS = {field.name: field.default for field in dataclasses.fields(RunOptions)}


@pytest.mark.parametrize("method", [ms.Job.run, ms.Job.start], ids=lambda each: each.__name__)
def test_a_method_shows_every_option_with_its_default(method):
    parameters = list(inspect.signature(method).parameters.values())[1:]
    assert {each.name: each.default for each in parameters} == OPTIONS
    assert all(each.kind is each.KEYWORD_ONLY for each in parameters)


@pytest.mark.parametrize("method", [ms.Job.run, ms.Job.start], ids=lambda each: each.__name__)
def test_a_method_passes_every_option_on(method):
    tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(method))))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "RunOptions"]
    assert [{each.arg: ast.unparse(each.value) for each in call.keywords} for call in calls] == [
        {n: n for n in OPTIONS}
    ]
