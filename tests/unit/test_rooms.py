"""The rooms of the package stay small, and each name in them means one thing."""

import ast
import textwrap
from collections import defaultdict
from pathlib import Path

import pytest

import millstream as ms

ROOT = Path(ms.__file__).parent
MODULES_PER_FOLDER = 25
LINES_PER_FILE = 300
LINES_PER_FUNCTION = 25
EMPTY_NAMES = {"util", "utils", "helper", "helpers", "common", "misc", "manager", "managers"}

LONG_FILES = {
    "plan/flink_options.py": "a table of data",
}
LONG_FUNCTIONS = {
    "checkpoint/staged.py:manifest_of": "one line for each field of a manifest",
    "jobmaster/savepoint/take.py:_record": "one line for each field of a savepoint",
    "connectors/jdbc/committer.py:JdbcCommitter._write_marker": "two statements of SQL",
    "runtime/operators/pattern/states.py:MatchState.__init__": "one line for each field",
}
"""What is long without being hard to read, and why."""


def crowded_folders(sources):
    """Folders with more modules than a reader takes in at a glance."""
    modules = defaultdict(int)
    for path in sources:
        modules[str(Path(path).parent)] += Path(path).name != "__init__.py"
    return {folder: count for folder, count in modules.items() if count > MODULES_PER_FOLDER}


def long_files(sources):
    """Files with more lines than stay in mind, with their number."""
    counts = {path: len(text.splitlines()) for path, text in sources.items()}
    return {path: count for path, count in counts.items() if count > LINES_PER_FILE}


def long_functions(sources):
    """Functions with more lines of code than are read at once, with their number."""
    counts = {
        f"{path}:{name}": lines_of_code(function, text)
        for path, text in sources.items()
        for name, function in functions_of(ast.parse(text))
    }
    return {name: count for name, count in counts.items() if count > LINES_PER_FUNCTION}


def functions_of(tree, inside=""):
    """Every function below a node by its qualified name, also those inside others."""
    for node in ast.iter_child_nodes(tree):
        is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if is_function:
            yield inside + node.name, node
        is_named = is_function or isinstance(node, ast.ClassDef)
        yield from functions_of(node, f"{inside}{node.name}." if is_named else inside)


def lines_of_code(function, text):
    """Lines of the body without its docstring, blank lines and comments."""
    body = function.body[1:] if ast.get_docstring(function, clean=False) is not None else function.body
    if not body:
        return 0
    lines = [line.strip() for line in text.splitlines()[body[0].lineno - 1 : function.end_lineno]]
    return len([line for line in lines if line and not line.startswith("#")])


def shared_class_names(sources):
    """Names of several classes, underscores before them left aside, with the files they stand in."""
    files = defaultdict(list)
    for path, text in sources.items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef):
                files[node.name.lstrip("_")].append(path)
    return {name: paths for name, paths in files.items() if len(paths) > 1}


def empty_names(sources):
    """Modules and folders whose name says nothing about what is inside."""
    return {path for path in sources if EMPTY_NAMES & set(Path(path).with_suffix("").parts)}


@pytest.fixture(scope="module")
def sources():
    return {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in sorted(ROOT.rglob("*.py"))}


def test_no_folder_is_crowded(sources):
    assert crowded_folders(sources) == {}


def test_no_file_is_long(sources):
    assert long_files(sources).keys() - LONG_FILES == set()


def test_no_function_is_long(sources):
    assert long_functions(sources).keys() - LONG_FUNCTIONS == set()


def test_no_class_name_is_shared(sources):
    assert shared_class_names(sources) == {}


def test_every_module_is_called_by_what_is_inside(sources):
    assert empty_names(sources) == set()


def test_nothing_is_allowed_that_need_not_be(sources):
    assert LONG_FILES.keys() - long_files(sources) == set()
    assert LONG_FUNCTIONS.keys() - long_functions(sources) == set()


def test_a_crowded_folder_is_seen():
    full = {f"room/module_{number}.py": "" for number in range(MODULES_PER_FOLDER)} | {"room/__init__.py": ""}
    assert crowded_folders(full) == {}
    assert crowded_folders(full | {"room/one_more.py": "", "room/below/other.py": ""}) == {"room": 26}


def test_a_long_file_is_seen():
    assert long_files({"short.py": "\n" * LINES_PER_FILE, "long.py": "\n" * (LINES_PER_FILE + 1)}) == {"long.py": 301}


def function(lines, head="def made():"):
    """A function with so many lines of code, beside what does not count."""
    body = ['"""Say what it does.', "", 'In two paragraphs."""', "", "# A reason.", *["do()"] * lines]
    return f"{head}\n{textwrap.indent(chr(10).join(body), '    ')}\n"


def test_a_long_function_is_seen():
    assert long_functions({"a.py": function(LINES_PER_FUNCTION)}) == {}
    assert long_functions({"a.py": function(26)}) == {"a.py:made": 26}
    assert long_functions({"a.py": function(27, "async def made():")}) == {"a.py:made": 27}
    method = "class Kind:\n    if True:\n" + textwrap.indent(function(26), " " * 8)
    assert long_functions({"a.py": method}) == {"a.py:Kind.made": 26}
    inner = "def outer():\n" + textwrap.indent(function(26), " " * 4)
    assert long_functions({"a.py": inner}).keys() == {"a.py:outer", "a.py:outer.made"}
    assert long_functions({"a.py": 'def nothing():\n    """It only says so."""\n'}) == {}


def test_a_shared_class_name_is_seen():
    made = {"a.py": "class Kind: ...\nclass Other: ...", "b.py": "def build():\n    class _Kind: ..."}
    assert shared_class_names(made) == {"Kind": ["a.py", "b.py"]}


@pytest.mark.parametrize("path", ["room/utils.py", "helpers/words.py", "common/__init__.py", "misc.py", "manager.py"])
def test_an_empty_name_is_seen(path):
    assert empty_names({path: "", "room/managed.py": ""}) == {path}
