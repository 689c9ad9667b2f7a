import pytest

from millstream.errors import InvalidStep
from millstream.model.connector import (
    ConnectorSpec,
    Option,
    checked_options,
    declaration,
    sink_declaration,
    source_declaration,
)
from millstream.registry import names


def even(value):
    if value % 2:
        raise ValueError("an even number")
    return value // 2


DECLARED = {
    "path": Option(kind=(str,), doc="where"),
    "mode": Option(kind=(str,), doc="how", default="a", choices=("a", "b")),
    "n": Option(kind=(int, type(None)), doc="half of it", default=None, check=even),
    "flag": Option(kind=(bool,), doc="yes or no", default=False),
}


def checked(**options):
    return checked_options(DECLARED, options, step="in", name="test")


def test_defaults_are_filled_in_and_checks_may_change_values():
    assert checked(path="x") == {"path": "x", "mode": "a", "n": None, "flag": False}
    assert checked(path="x", n=8, flag=True, mode="b") == {"path": "x", "mode": "b", "n": 4, "flag": True}


@pytest.mark.parametrize(
    ("options", "code", "text"),
    [
        ({}, "CONN-004", "path"),
        ({"path": "x", "paht": 1}, "CONN-003", "paht"),
        ({"path": 1}, "CONN-005", "str"),
        ({"path": None}, "CONN-005", "str"),
        ({"path": "x", "mode": "c"}, "CONN-005", "a, b"),
        ({"path": "x", "n": True}, "CONN-005", "int"),
        ({"path": "x", "n": 3}, "CONN-005", "an even number"),
        ({"path": "x", "flag": 1}, "CONN-005", "bool"),
    ],
)
def test_wrong_options_are_refused(options, code, text):
    with pytest.raises(InvalidStep) as caught:
        checked(**options)
    assert (caught.value.code, caught.value.step) == (code, "in")
    assert text in str(caught.value)


def test_every_built_in_connector_declares_itself():
    for name in names("connectors"):
        found = declaration(name)
        assert found.name == name
        assert found.source or found.sink
        for half in filter(None, (found.source, found.sink)):
            assert all(option.doc for option in half.options.values())


def test_unknown_connectors_and_wrong_roles_are_refused():
    with pytest.raises(InvalidStep, match=r"CONN-001.*memory"):
        declaration("kafkaa")
    with pytest.raises(InvalidStep, match="CONN-002"):
        sink_declaration(ConnectorSpec("memory"), step="x")
    with pytest.raises(InvalidStep, match="CONN-002"):
        source_declaration(ConnectorSpec("collect"), step="x")
