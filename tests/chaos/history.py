"""What was done and what came of it, one JSON line each: `ok`, `fail` (nothing happened for sure), `unknown` (killed)."""

import json
import time
from pathlib import Path

OUTCOMES = ("ok", "fail", "unknown")


class History:
    """The history of one round."""

    def __init__(self, path):
        self._path, self._began = Path(path), time.monotonic()
        self.entries = []

    def note(self, action, outcome, **detail):
        """Append one entry; it is on disk before the next action."""
        if outcome not in OUTCOMES:
            raise ValueError(outcome)
        entry = {"at": round(time.monotonic() - self._began, 3), "action": action, "outcome": outcome, **detail}
        self.entries.append(entry)
        with self._path.open("a") as file:
            file.write(json.dumps(entry, default=str) + "\n")
        return entry
