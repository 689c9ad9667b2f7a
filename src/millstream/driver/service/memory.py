"""What all processes of a run hold in memory, and what is done about it when that is too much."""

from __future__ import annotations

import contextlib
import os
from enum import StrEnum
from pathlib import Path

_PAGE = os.sysconf("SC_PAGE_SIZE")


class Pressure(StrEnum):
    """How near a run is to its limit."""

    NONE = "none"
    WARN = "warn"
    STOP = "stop"
    """The run is ended as its job wishes, while there is room to do so."""
    KILL = "kill"


def pressure(used: int, limit: int) -> Pressure:
    """Decide by the bytes that are held."""
    share = used / limit
    if share >= 1:
        return Pressure.KILL
    if share >= 0.95:
        return Pressure.STOP
    return Pressure.WARN if share >= 0.85 else Pressure.NONE


def session_bytes(session: int) -> int:
    """Bytes that the processes of a session hold in memory."""
    pages = 0
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            with contextlib.suppress(OSError, IndexError, ValueError):  # it ended meanwhile
                # The name in parentheses may hold spaces; what follows it is fixed: session as 4th, resident pages as 22nd.
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                pages += int(fields[21]) if int(fields[3]) == session else 0
    return pages * _PAGE
