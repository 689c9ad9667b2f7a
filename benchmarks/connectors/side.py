"""One side of a comparison in a process of its own: `python -m benchmarks.connectors.side COMPARISON SIDE FOLDER`."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path


def main() -> None:
    """Run one side; it returns what stands in `measured.json` then."""
    comparison, side, folder = sys.argv[1:4]
    work = Path(folder)
    facts = json.loads((work / "facts.json").read_text())
    module = importlib.import_module(f"benchmarks.connectors.{comparison}")
    found = module.SIDES[side](work, facts)
    (work / "measured.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
