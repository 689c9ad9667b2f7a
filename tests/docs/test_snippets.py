"""The code of the documentation runs, prints what the page shows, and its commands and links work."""

import re
import shlex
import shutil

import pytest
from typer.testing import CliRunner

from millstream.cli.main import app

from tests.docs.pages import PAGES, ROOT, blocks, name, output_behind

FRAGMENTS = {"docs/reference/connectors.md", "docs/reference/expressions.md"}
"""Pages whose blocks show a line out of a job; they are compiled, not run."""
MOST_UNRUN = 4
LOCAL_COMMANDS = ("plan", "validate", "version")
_LINK = re.compile(r"(?<!!)\[[^\]]+\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


@pytest.fixture
def workspace(tmp_path, monkeypatch):
    """A folder of its own for each page, with the examples in it."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def python_blocks(path):
    return [block for block in blocks(path) if block.language == "python"]


RUNNABLE = [page for page in PAGES if python_blocks(page) and name(page) not in FRAGMENTS]


@pytest.mark.parametrize("page", RUNNABLE, ids=name)
def test_the_blocks_of_a_page_run_in_order(page, workspace, capsys):
    namespace = {"__name__": "page"}
    for block in python_blocks(page):
        if block.file is not None:
            (workspace / block.file).write_text(block.text)
        if "no-run" in block.marks:
            continue
        code = compile("\n" * (block.line - 1) + block.text, name(page), "exec")
        exec(code, namespace)
        printed, promised = capsys.readouterr().out, output_behind(page, block)
        if promised is not None:
            assert printed == promised, f"{name(page)}:{block.line} prints something else"
    for command in commands(page):
        result = CliRunner().invoke(app, command)
        assert result.exit_code == 0, f"millstream {shlex.join(command)}: {result.output}"


def commands(page):
    """The `millstream` commands of a page that need neither Spark nor time."""
    lines = [line for block in blocks(page) if block.language == "sh" for line in block.text.splitlines()]
    found = [shlex.split(line, comments=True) for line in lines if line.startswith("millstream ")]
    return [words[1:] for words in found if words[1] in LOCAL_COMMANDS or "--local" in words]


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page) and page not in RUNNABLE], ids=name)
def test_the_commands_of_a_page_run(page, workspace):
    for command in commands(page):
        result = CliRunner().invoke(app, command)
        assert result.exit_code == 0, f"millstream {shlex.join(command)}: {result.output}"


@pytest.mark.parametrize("page", [page for page in PAGES if name(page) in FRAGMENTS], ids=name)
def test_fragments_are_python(page):
    for block in python_blocks(page):
        compile(block.text, name(page), "exec")


def test_few_blocks_are_not_run():
    unrun = [name(page) for page in PAGES for block in python_blocks(page) if "no-run" in block.marks]
    assert len(unrun) <= MOST_UNRUN, unrun


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page):
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for target in _LINK.findall(text):
        if target.startswith(("http://", "https://", "mailto:")):
            continue
        file, _, anchor = target.partition("#")
        found = (page.parent / file).resolve() if file else page
        assert found.exists(), f"{name(page)} links to {target}"
        if anchor:
            assert anchor in anchors(found), f"{name(page)} links to {target}"


def anchors(page):
    """The anchors of a page's headings, as GitHub makes them."""
    headings = _HEADING.findall(page.read_text())
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
