"""The code of the documentation runs, prints what the page shows, and its commands and links work."""

import re
import shlex
import shutil
import sys

import pytest
from tests.docs.pages import PAGES, ROOT, blocks, name, output_behind
from typer.testing import CliRunner

from millstream.cli.main import app

FRAGMENTS = {"docs/reference/connectors.md", "docs/reference/declarative.md", "docs/reference/expressions.md"}
"""Pages whose blocks show a line out of a job; they are compiled, not run."""
MOST_UNRUN = 4
LOCAL_COMMANDS = ("plan", "validate", "version")
_LINK = re.compile(r"(?<!!)\[[^\]]+\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


@pytest.fixture
def workspace(tmp_path, monkeypatch):
    """A folder of its own for each page, with the examples in it; modules that a page writes are forgotten."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    yield tmp_path
    for module in set(sys.modules) - before:
        if str(tmp_path) in (getattr(sys.modules[module], "__file__", None) or ""):
            del sys.modules[module]


def commands(block):
    """The `millstream` commands of a block that need neither Spark nor time."""
    if block.language != "sh":
        return []
    found = [shlex.split(line, comments=True) for line in block.text.splitlines() if line.startswith("millstream ")]
    return [words[1:] for words in found if words[1] in LOCAL_COMMANDS or "--local" in words]


def run_command(words):
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, f"millstream {shlex.join(words)}: {result.output}"


def python_blocks(path):
    return [block for block in blocks(path) if block.language == "python"]


def is_runnable(page):
    return name(page) not in FRAGMENTS and any(block.language == "python" or commands(block) for block in blocks(page))


RUNNABLE = [page for page in PAGES if is_runnable(page)]


_BROKER, _NATS, _RABBITMQ = "localhost:9092", "localhost:4222", "amqp://guest:guest@localhost:5672/"


def needing(page):
    """What a page talks to beside this process, for tests of it to be chosen by."""
    text = page.read_text()
    marks = {_BROKER: pytest.mark.kafka, _RABBITMQ: pytest.mark.brokers}
    return [mark for address, mark in marks.items() if address in text]


@pytest.fixture
def at_hand(request):
    """Text as it can run here: the broker of a page is that of the tests."""

    def changed(text):
        servers = {
            _BROKER: ("kafka", "servers"),
            _NATS: ("nats_server", "servers"),
            _RABBITMQ: ("rabbitmq_server", "url"),
        }
        for address, (fixture, attribute) in servers.items():
            if address in text:
                text = text.replace(address, getattr(request.getfixturevalue(fixture), attribute))
        return text

    return changed


@pytest.mark.parametrize("page", [pytest.param(page, marks=needing(page)) for page in RUNNABLE], ids=name)
def test_the_blocks_of_a_page_run_in_order(page, workspace, capsys, at_hand):
    namespace = {"__name__": "page"}
    for block in blocks(page):
        for words in commands(block):
            run_command(words)
        if block.language == "python" and "no-run" not in block.marks:
            if block.file is not None:
                (workspace / block.file).write_text(block.text)
            capsys.readouterr()
            exec(compile("\n" * (block.line - 1) + at_hand(block.text), name(page), "exec"), namespace)
            printed, promised = capsys.readouterr().out, output_behind(page, block)
            assert printed == (promised or ""), f"{name(page)}:{block.line} prints something else"


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
