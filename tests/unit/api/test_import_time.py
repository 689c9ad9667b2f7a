"""`import millstream` stays light: no engine, no SQL parser, no YAML, and little time."""

import subprocess
import sys

HEAVY = ("pyspark", "duckdb", "sqlglot", "yaml", "pandas", "rich", "typer")


def test_no_heavy_library_is_imported():
    code = f"import sys, millstream; print([name for name in {HEAVY!r} if name in sys.modules])"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"


def test_the_command_line_does_not_import_pyspark():
    code = "import sys, millstream.cli.main; print('pyspark' in sys.modules, 'duckdb' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "False False"


def test_it_takes_little_time():
    """The best of three, with twice the time a quiet machine needs; a heavy import costs more than that."""
    assert min(_microseconds() for _ in range(3)) < 800_000


def _microseconds():
    command = [sys.executable, "-X", "importtime", "-c", "import millstream"]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = [line.removeprefix("import time:").split("|") for line in answer.stderr.splitlines() if "|" in line]
    return next(int(total) for _, total, name in lines if name == " millstream")
