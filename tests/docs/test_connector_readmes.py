"""The README beside each connector, and beside the formats they share: short, and true to the folder it stands in."""

import re

import pytest
from tests.docs.pages import ROOT

from millstream.model.connector import declaration
from millstream.registry import names

FOLDERS = {name: ROOT / "src/millstream/connectors" / name for name in (*names("connectors"), "formats")}


@pytest.fixture(params=FOLDERS)
def name(request):
    return request.param


@pytest.fixture
def text(name):
    return (FOLDERS[name] / "README.md").read_text()


def test_it_is_short(text):
    assert 10 <= len(text.splitlines()) <= 25


def test_it_names_every_file_and_no_other(name, text):
    files = {path.name for path in FOLDERS[name].glob("*.py")} - {"__init__.py"}
    listed = set(re.findall(r"`((?:\.\./)?\w+\.py)`", text[text.index("| file") : text.index("\nTested ")]))
    assert {file for file in listed if not file.startswith("../")} == files
    assert all((FOLDERS[name] / file).is_file() for file in listed)


@pytest.mark.parametrize("name", names("connectors"))
def test_it_names_what_the_connector_declares(name, text):
    declared = declaration(name)
    sides = [side for side in (declared.source, declared.sink) if side is not None]
    assert all(f"`{side.capability.value}`" in text for side in sides)


def test_the_tests_it_names_are_there(text):
    for path in re.findall(r"`(tests/[\w/.]+)`", text):
        assert (ROOT / path).exists(), path
    for file in re.findall(r"`(test_\w+\.py|nexmark_reference\.py)`", text):
        assert list(ROOT.glob(f"tests/unit/connectors/**/{file}")), file


def test_the_failpoints_it_names_are_those_of_its_code(name, text):
    code = "".join(path.read_text() for path in FOLDERS[name].rglob("*.py"))
    named = re.search(r"Failpoints?: ([^.]*)\.", text)
    assert set(re.findall(r"failpoint\(\"(\w+)\"\)", code)) == set(re.findall(r"`(\w+)`", named[1] if named else ""))
