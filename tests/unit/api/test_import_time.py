"""`import millstream` stays light: no engine, no SQL parser, no YAML, and little time."""

import subprocess
import sys

HEAVY = ("pyspark", "duckdb", "sqlglot", "yaml", "pandas", "rich", "typer")
HEAVY_IN_RUNS = ("pyspark", "duckdb", "sqlglot", "yaml", "asyncio", "ssl", "importlib.metadata", "pyarrow.parquet")


def test_no_heavy_library_is_imported():
    code = f"import sys, millstream; print([name for name in {HEAVY!r} if name in sys.modules])"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"


def test_neither_does_what_runs_a_job():
    """What only some jobs need is imported by those: each driver and each worker would pay for it."""
    code = f"import sys, millstream.local.run; print([name for name in {HEAVY_IN_RUNS!r} if name in sys.modules])"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"


def test_connectors_and_job_files_come_with_their_first_use():
    """There will be more of them; a script uses two."""
    code = "import sys, millstream as ms; ms.files; print(*sys.modules)"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    names = [
        name for name in answer.stdout.split() if name.startswith("millstream.api.jobfile") or name.endswith(".spec")
    ]
    assert names == ["millstream.connectors.files.spec"]


def test_the_command_line_does_not_import_pyspark():
    code = "import sys, millstream.cli.main; print('pyspark' in sys.modules, 'duckdb' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "False False"


def test_it_takes_little_time():
    """Processor time, the best of three: about 0.3 s on a quiet machine, nearly all of it pyarrow."""
    assert min(_processor_seconds() for _ in range(3)) < 0.8


def _processor_seconds():
    code = "import time, millstream; print(time.process_time())"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(answer.stdout)
