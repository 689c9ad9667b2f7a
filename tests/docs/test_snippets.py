"""The code of the documentation runs, prints what the page shows, and its commands and links work."""

import contextlib
import re
import shutil
import sys

import psycopg
import pytest
from tests.docs.page_commands import as_shown, commands, run_command, run_script, scripts, servers, serving
from tests.docs.pages import PAGES, ROOT, blocks, name, output_behind
from tests.servers.ports import free_ports

FRAGMENTS = {"docs/reference/connectors.md", "docs/reference/declarative.md", "docs/reference/expressions.md"}
"""Pages whose blocks show a line out of a job; they are compiled, not run."""
MOST_UNRUN = 4
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


def python_blocks(path):
    return [block for block in blocks(path) if block.language == "python"]


def is_runnable(page):
    return name(page) not in FRAGMENTS and any(block.language == "python" or commands(block) for block in blocks(page))


RUNNABLE = [page for page in PAGES if is_runnable(page)]


_BROKER = "localhost:9092"
_DATABASE = "postgresql://shop@localhost:5432/shop"
_API = "localhost:8765"
_NATS = "localhost:4222"
_RABBITMQ = "amqp://guest:guest@localhost:5672/"


def needing(page):
    """What a page talks to beside this process, for tests of it to be chosen by."""
    text = page.read_text()
    marks = {_BROKER: pytest.mark.kafka, _RABBITMQ: pytest.mark.brokers}
    return [mark for address, mark in marks.items() if address in text]


@pytest.fixture
def own_database(logical_postgres):
    """An empty database of a server whose changes can be read."""
    with psycopg.connect(logical_postgres.url, autocommit=True) as connection:
        _drop_shop(connection)
        connection.execute("CREATE DATABASE shop")
        yield logical_postgres.url.rpartition("/")[0] + "/shop"
        _drop_shop(connection)


def _drop_shop(connection):
    # A database stays as long as a slot reads its changes.
    connection.execute("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = 'shop'")
    connection.execute("DROP DATABASE IF EXISTS shop WITH (FORCE)")


@pytest.fixture
def own_port():
    (port,) = free_ports(1)
    return port


@pytest.fixture
def at_hand(request):
    """Text as it can run here: the broker, the database and the API of a page are those of the tests."""
    here = {
        _BROKER: lambda: request.getfixturevalue("kafka").servers,
        _DATABASE: lambda: request.getfixturevalue("own_database"),
        _API: lambda: f"localhost:{request.getfixturevalue('own_port')}",
        _NATS: lambda: request.getfixturevalue("nats_server").servers,
        _RABBITMQ: lambda: request.getfixturevalue("rabbitmq_server").url,
    }

    def changed(text):
        for there, found in here.items():
            text = text.replace(there, found()) if there in text else text
        return text

    return changed


@pytest.mark.parametrize("page", [pytest.param(page, marks=needing(page)) for page in RUNNABLE], ids=name)
def test_the_blocks_of_a_page_run_in_order(page, workspace, capsys, at_hand, request):
    namespace = {"__name__": "page"}
    with contextlib.ExitStack() as started:
        for block in blocks(page):
            for file in servers(block):
                started.enter_context(serving(file, request.getfixturevalue("own_port")))
            for words in scripts(block):
                run_script(words)
            shown = [as_shown(run_command(*command)) for command in commands(block)]
            promised = at_hand(output_behind(page, block) or "")
            if block.language == "sh" and promised:
                assert "".join(shown) == promised, f"{name(page)}:{block.line} prints something else"
            if block.language == "python" and "no-run" not in block.marks:
                text = at_hand(block.text)
                if block.file is not None:
                    (workspace / block.file).write_text(text)
                capsys.readouterr()
                exec(compile("\n" * (block.line - 1) + text, name(page), "exec"), namespace)
                printed = capsys.readouterr().out
                assert printed == promised, f"{name(page)}:{block.line} prints something else"


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
