"""Nothing that is stored becomes code: what could make it so stands in few places, and each of them says why."""

import ast
from pathlib import Path

import millstream as ms

SOURCES = Path(ms.__file__).parent
LOADERS = {"pickle", "_pickle", "cloudpickle", "dill", "marshal", "shelve", "jsonpickle", "joblib"}
IMPORTED = {
    "spark/query/level.py": "ships the program of a run to its workers",
    "spark/query/shipping.py": "the same",
    "spark/start/zygote_process.py": "what PySpark's own worker loop takes",
}
MADE = {
    "records/codecs.py": "a builder of rows, from names that were checked to be columns",
    "runtime/operators/pattern/conditions.py": "a condition of a pattern, from an expression that was parsed and allowed",
    "connectors/formats/json_messages.py": "a reader of fields, from the schema",
    "runtime/operators/pattern/linear.py": "the source that a pattern becomes, made of its checked stages",
    "spark/start/zygote_process.py": "the main module of a worker of PySpark",
}


def uses(kind):
    found = set()
    for path in SOURCES.rglob("*.py"):
        if any(kind(node) for node in ast.walk(ast.parse(path.read_text()))):
            found.add(str(path.relative_to(SOURCES)))
    return found


def _imports(node):
    names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
    names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
    return any(name.split(".")[0] in LOADERS for name in names)


def _calls(node, *names):
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names


def _method(node, module, *names):
    is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    return (
        is_call
        and isinstance(node.func.value, ast.Name)
        and (node.func.value.id, node.func.attr) in {(module, name) for name in names}
    )


def test_objects_are_unpickled_nowhere_but_here():
    assert uses(_imports) == IMPORTED.keys()


def test_code_is_made_nowhere_but_here():
    assert uses(lambda node: _calls(node, "eval", "exec", "compile")) == MADE.keys()


def test_yaml_is_read_as_data():
    assert uses(lambda node: _method(node, "yaml", "load", "unsafe_load", "full_load", "load_all")) == set()


def test_no_command_goes_through_a_shell():
    def is_shell(node):
        return isinstance(node, ast.keyword) and node.arg == "shell" and getattr(node.value, "value", None) is not False

    assert uses(is_shell) == set()
    assert uses(lambda node: _method(node, "os", "system", "popen")) == set()
