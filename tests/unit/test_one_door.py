"""Names become code in the registry alone: elsewhere an import by string would hide a dependency from the linter."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import millstream as ms
from millstream import registry
from millstream.contract import sink, source
from millstream.errors import InvalidStep
from millstream.model.connector import ConnectorDeclaration, declaration
from millstream.runtime import connector

SOURCES = Path(ms.__file__).parent
ALLOWED = {
    "registry.py": "the door itself",
    "api/jobfile/target.py": "a job file is loaded by its path, which no name stands for",
    "inspect/machine.py": "asks which versions of packages are installed",
    "jobmaster/savepoint/take.py": "asks for the version of this package",
    "spark/start/choice.py": "asks where pyspark lies, without importing it",
    "spark/start/zygote_process.py": "a script that runs before this package can be imported",
}


def _imports_by_name(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import) and any(name.name.split(".")[0] == "importlib" for name in node.names):
            yield node.lineno
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "importlib":
            yield node.lineno
        if isinstance(node, ast.Name) and node.id == "__import__":
            yield node.lineno


def test_nothing_else_imports_by_name():
    users = {str(path.relative_to(SOURCES)) for path in SOURCES.rglob("*.py") if list(_imports_by_name(path))}
    assert users == ALLOWED.keys()


@pytest.mark.parametrize("group", registry._OURS)
def test_every_name_of_ours_leads_to_something(group):
    for name in registry._OURS[group]:
        assert registry.find(group, name) is not None


def test_engines_are_loaded_without_heavy_libraries():
    code = "import sys; from millstream.registry import find; find('engines', 'spark'); assert 'pyspark' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.fixture
def brought(tmp_path, monkeypatch):
    """Another package that is installed and brings connectors."""

    def bring(**points):
        (tmp_path / "brought.py").write_text(
            "from millstream.model.connector import ConnectorDeclaration\n"
            "OTHER = ConnectorDeclaration(name='other')\n"
            "WRONG = ConnectorDeclaration(name='something else')\n"
            "NOTHING = None\n"
        )
        info = tmp_path / "brought-1.0.dist-info"
        info.mkdir(exist_ok=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: brought\nVersion: 1.0\n")
        lines = [f"{name} = brought:{attribute}" for name, attribute in points.items()]
        (info / "entry_points.txt").write_text("\n".join(["[millstream.connectors]", *lines]))
        monkeypatch.syspath_prepend(tmp_path)

    yield bring
    sys.modules.pop("brought", None)


def test_another_package_brings_a_connector(brought):
    brought(other="OTHER")
    assert declaration("other") == ConnectorDeclaration(name="other")
    assert registry.names("connectors")[-1] == "other"


def test_a_name_of_ours_cannot_be_taken(brought):
    brought(files="OTHER")
    assert declaration("files").name == "files"
    assert registry.names("connectors").count("files") == 1


@pytest.mark.parametrize("attribute", ["WRONG", "NOTHING"])
def test_what_is_no_declaration_is_refused(brought, attribute):
    brought(other=attribute)
    with pytest.raises(InvalidStep, match=r"CONN-006.*no declaration of it"):
        declaration("other")


def test_an_unknown_connector_names_the_known_ones(brought):
    brought(other="OTHER")
    with pytest.raises(InvalidStep, match=r"CONN-001.*'nothing'.*files.*other.*install the package"):
        declaration("nothing")


def test_connectors_written_before_the_contract_had_a_room_still_find_it():
    homes = {**vars(source), **vars(sink)}
    assert {name: getattr(connector, name) is homes[name] for name in connector.__all__} == dict.fromkeys(
        connector.__all__, True
    )
