"""Every test that the security checklist names is there: what is claimed is shown."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/reference/security.md").read_text()
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)((?:::\w+)*)`", PAGE)))
ROWS = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith("| area")]


def test_every_line_names_a_test():
    assert len(ROWS) >= 25
    assert [line for line in ROWS if "tests/" not in line.rpartition(" | ")[2]] == []


@pytest.mark.parametrize(("path", "names"), NAMED)
def test_it_is_there(path, names):
    inside = ast.parse((ROOT / path).read_text()).body
    for name in names.split("::")[1:]:
        found = [node for node in inside if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == name]
        assert found, f"{path} has no {name}"
        inside = found[0].body
    assert any(isinstance(node, ast.FunctionDef) for node in ast.walk(ast.Module(inside, []))) or names
