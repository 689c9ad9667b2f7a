"""Seeded input: rows of two sources in small json files, written one after another while the job runs."""

import json
import os
import random
from pathlib import Path

SOURCES = ("a", "b")
STEP_MS = 40
_KEYS = 7


class Workload:
    """Writes files of rows and remembers every line; one in about fifty is broken JSON, one in about fifty is refused later."""

    def __init__(self, folder, seed, *, rows_per_file=100):
        self._folder, self._random, self._rows_per_file = Path(folder), random.Random(f"{seed}/input"), rows_per_file
        self.lines = {source: [] for source in SOURCES}
        self.files = dict.fromkeys(SOURCES, 0)
        for source in SOURCES:
            (self._folder / "in" / source).mkdir(parents=True)

    @property
    def rows(self):
        """Lines written so far."""
        return sum(map(len, self.lines.values()))

    def drip(self, files):
        """Add that many files to each source."""
        for _ in range(files):
            for source in SOURCES:
                self._write(source)

    def _write(self, source):
        first = len(self.lines[source])
        lines = [self._line(source, first + number) for number in range(self._rows_per_file)]
        path = self._folder / "in" / source / f"{self.files[source]:06d}.json"
        # Complete before it has its name, and later than its predecessor: sources read in order of modification.
        temporary = self._folder / f".{source}.new"
        temporary.write_text("".join(line + "\n" for line in lines))
        stamp = 1_700_000_000_000_000_000 + self.files[source] * 1_000_000
        os.utime(temporary, ns=(stamp, stamp))
        temporary.rename(path)
        self.lines[source] += lines
        self.files[source] += 1

    def _line(self, source, seq):
        amount = self._random.randrange(100)
        row = {"source": source, "seq": seq, "key": f"k{self._random.randrange(_KEYS)}", "amount": amount}
        text = json.dumps({**row, "at": seq * STEP_MS})
        return text if self._random.randrange(50) else text[: len(text) // 2]
