"""The logs of a run, read by offset, as people follow them."""

from __future__ import annotations

import re
from typing import NamedTuple

from millstream.contract.run_folder import DriverFolder
from millstream.errors import InvalidStep

_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,99}")
_MOST = 1 << 20


class LogPart(NamedTuple):
    """A part of a log."""

    content: bytes
    next_offset: int
    size: int
    """Of the log now: at its end, the next part is to be asked for later."""


def log_names(folder: DriverFolder) -> list[str]:
    """The logs that there are."""
    return sorted(path.name for path in folder.logs.glob("*") if path.is_file()) if folder.logs.is_dir() else []


def read_log(folder: DriverFolder, name: str, offset: int, limit: int = _MOST) -> LogPart:
    """A part of a log, from a byte on; a negative offset counts from its end. One behind the end gives nothing.

    Raises:
        InvalidStep: (CTL-116) there is no such log.
    """
    path = folder.logs / name
    if _NAME.fullmatch(name) is None or path.is_symlink() or not path.is_file():
        msg = "there is no such log of the run"
        raise InvalidStep(msg, code="CTL-116", found=repr(name), known=log_names(folder), hint="name one of them")
    with path.open("rb") as file:
        size = file.seek(0, 2)
        # A log that is shorter than what was read of it was turned meanwhile: the new one is read from its beginning.
        begin = max(0, size + offset) if offset < 0 else offset if offset <= size else 0
        file.seek(begin)
        content = file.read(max(0, min(limit, _MOST)))
    return LogPart(content, begin + len(content), size)
