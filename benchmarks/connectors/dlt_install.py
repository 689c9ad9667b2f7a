"""dlt in a virtual environment of its own: it needs other versions of some packages than PySpark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

VERSION = "1.31.0"
FOLDER = Path(__file__).parents[2] / ".venv-dlt"
PYTHON = FOLDER / "bin" / "python"
_WANTED = (f"dlt[parquet]=={VERSION}", "connectorx>=0.4,<1", "sqlalchemy>=2,<3", "psycopg[binary]>=3.2,<4")
_MINUTES = 10


def installed() -> Path:
    """Its Python, installed if it is not there."""
    if not any(FOLDER.glob(f"lib/python*/site-packages/dlt-{VERSION}.dist-info")):
        base = getattr(sys, "_base_executable", sys.executable)
        for command in ([base, "-m", "venv", str(FOLDER)], [str(PYTHON), "-m", "pip", "install", "--quiet", *_WANTED]):
            subprocess.run(command, check=True, timeout=_MINUTES * 60)
    return PYTHON
