"""The pages about the REST interface say what it is."""

import re
import sys

import pytest
from tests.docs.pages import ROOT

sys.path.insert(0, str(ROOT / "scripts"))
import rest_reference

FLINK = (ROOT / "docs/reference/flink-rest.md").read_text()
CALL = re.compile(r"`(GET|POST|PUT|PATCH|DELETE) (/v1/[^`\s?]+)")


@pytest.fixture(scope="module")
def described():
    return rest_reference.document()


def test_the_reference_is_current(described):
    assert rest_reference.PAGE.read_text() == rest_reference.page(described), "run python scripts/rest_reference.py"


def test_calls_that_stand_for_those_of_flink_exist(described):
    named = CALL.findall(FLINK)
    assert len(set(named)) >= 30
    missing = [(method, path) for method, path in named if method.lower() not in described["paths"].get(path, {})]
    assert missing == []


def test_every_call_of_flink_has_its_place():
    counts = re.findall(r"^\| .+ \| (\d+) \|", FLINK, re.MULTILINE)
    assert sum(map(int, counts)) == 83


def test_every_call_is_described(described):
    for path, calls in described["paths"].items():
        for method, call in calls.items():
            assert call.get("description"), (method, path)
            assert call["summary"]


def test_schemes_of_access_are_declared(described):
    named = {
        name
        for calls in described["paths"].values()
        for call in calls.values()
        for each in call["security"]
        for name in each
    }
    assert named == set(described["components"]["securitySchemes"])
