"""The pages of the documentation, cut into fenced blocks."""

import dataclasses
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
_FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```[ ]*$", re.MULTILINE | re.DOTALL)


@dataclasses.dataclass(frozen=True)
class Block:
    """A fenced block: `language` and further `marks` of its first line, its text, and where it starts and ends."""

    language: str
    marks: tuple[str, ...]
    text: str
    line: int
    start: int
    end: int

    @property
    def file(self):
        """The file name of a block that is also written to disk: ```python file=job.py."""
        return next((mark.removeprefix("file=") for mark in self.marks if mark.startswith("file=")), None)


def blocks(path):
    text = path.read_text()
    found = []
    for match in _FENCE.finditer(text):
        language, *marks = match[1].split() or [""]
        line = text.count("\n", 0, match.start()) + 2
        found.append(Block(language, tuple(marks), match[2], line, match.start(), match.end()))
    return found


def output_behind(path, block):
    """The text block marked `output` right behind a block: what the block prints."""
    text = path.read_text()
    for other in blocks(path):
        if other.start > block.end and not text[block.end : other.start].strip() and "output" in other.marks:
            return other.text
    return None


def name(path):
    return str(path.relative_to(ROOT))
