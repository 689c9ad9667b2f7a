"""The process of one side: `python -m benchmarks.side COMPARISON SIDE`; leaves `measured.json` in its work folder."""

from __future__ import annotations

import argparse
import importlib
import json
from pathlib import Path

from benchmarks.measure import Setting, as_json


def main() -> None:
    """Run one side."""
    parser = argparse.ArgumentParser()
    parser.add_argument("comparison")
    parser.add_argument("side")
    parser.add_argument("--scale", choices=["small", "full"], required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    given = parser.parse_args()
    module = importlib.import_module(f"benchmarks.{given.comparison}")
    measured = module.SIDES[given.side](Setting(scale=given.scale, data=given.data, work=given.work))
    (given.work / "measured.json").write_text(json.dumps(as_json(measured)))


if __name__ == "__main__":
    main()
