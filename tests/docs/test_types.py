"""Every example and every block of the documentation passes `mypy --strict`: what users copy and call is typed."""

import os
import re
import subprocess
import sys

from tests.docs.pages import PAGES, ROOT, blocks, name

PREAMBLES = {
    "docs/reference/cli.md": "import millstream as ms\njob: ms.Job",
    "docs/reference/connectors.md": "import millstream as ms\nfrom millstream.connectors.files.reader import published_files\n"
    "totals: ms.DataStream\njob: ms.Job",
    "docs/reference/expressions.md": "import millstream as ms\norders: ms.DataStream",
}
"""What the lines of a page that shows only lines stand in."""
SETTINGS = f"""[mypy]
strict = True
python_version = 3.11
mypy_path = {ROOT / "src"}:{ROOT / "examples"}:{ROOT}
explicit_package_bases = True
namespace_packages = True

[mypy-pyarrow.*,duckdb.*,pandas.*,cloudpickle.*,py4j.*,pyflink.*]
ignore_missing_imports = True
follow_untyped_imports = False

[mypy-confluent_kafka.*]
implicit_reexport = True

# The suite that a sink is plugged into and the broker of the tests are written for pytest, without types; PyFlink is not
# installed here.
[mypy-tests.unit.*,tests.servers.kafka,tests.servers.kafka_topics,tests.servers.shared_kafka]
follow_imports = skip

[mypy-docs_guides_write_a_connector_md,examples.nexmark.rivals.pyflink_process]
disallow_subclassing_any = False

# A block that is also a file: later blocks of its page use what it imports.
[mypy-test_sink_shelf]
disallow_subclassing_any = False
implicit_reexport = True
"""


def module_of(page):
    return re.sub(r"\W", "_", name(page))


def write_page(page, folder):
    """The blocks of a page as one module, each line where it stands in the page; blocks that are files as files."""
    lines = [""] * (page.read_text().count("\n") + 1)
    for block in blocks(page):
        if block.language != "python":
            continue
        if block.file is None:
            lines[block.line - 1 : block.line - 1 + block.text.count("\n")] = block.text.splitlines()
        else:
            (folder / block.file).write_text(block.text)
            lines[block.line - 1] = f"from {block.file.removesuffix('.py')} import *"
    # One line, so that the numbers in mypy's messages are those of the page.
    lines[0] = PREAMBLES.get(name(page), "").replace("\n", "; ")
    (folder / f"{module_of(page)}.py").write_text("\n".join(lines) + "\n")


def examples():
    found = [path.relative_to(ROOT / "examples") for path in sorted((ROOT / "examples").rglob("*.py"))]
    return [
        str(path.with_suffix("")) if path.parent.name == "" else "examples." + ".".join(path.with_suffix("").parts)
        for path in found
        if path.name != "__init__.py"
    ]


def test_examples_and_blocks_are_typed(tmp_path):
    pages = [page for page in PAGES if any(block.language == "python" for block in blocks(page))]
    for page in pages:
        write_page(page, tmp_path)
    (tmp_path / "mypy.ini").write_text(SETTINGS)
    modules = [*map(module_of, pages), *examples()]
    command = [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "--cache-dir", str(ROOT / ".mypy_cache")]
    done = subprocess.run(
        [*command, *(f"-m{module}" for module in modules)],
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"no issues found in {len(modules)} source files" in done.stdout
