"""The process of one side: `python -m examples.nexmark.rivals.side ours SETTING.json`; leaves `answer.json` beside it."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from examples.nexmark.rivals.setting import read_setting, write_json


def main() -> None:
    """Run one side."""
    side, path = sys.argv[1], Path(sys.argv[2])
    answer = importlib.import_module(f"examples.nexmark.rivals.{side}_side").run(read_setting(path))
    write_json(answer, path.with_name("answer.json"))


if __name__ == "__main__":
    main()
