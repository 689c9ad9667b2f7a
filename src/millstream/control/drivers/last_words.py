"""What a driver that ended, or was ended, left in its folder for a node that was not there to hear it."""

from __future__ import annotations

import contextlib

import msgspec

from millstream.contract.driver_protocol import DriverReport
from millstream.contract.run_folder import DriverFolder

_REPORT = msgspec.json.Decoder(DriverReport)


def last_words(folder: DriverFolder, token: int, *, after: int, is_gone: bool) -> list[DriverReport]:
    """The reports of a driver behind a number: those of its journal, and its result, when it ended in order.

    Of one that was killed, and so has no result, what its journal has: its epochs are published, though nobody was told.

    Raises:
        BadRunFolder: the result cannot be read.
    """
    result = folder.read_result()
    if result is not None and result.token == token:
        return [*(each for each in _journal(folder) if after < each.seq < result.seq), result]
    return [each for each in _journal(folder) if each.token == token and each.seq > after] if is_gone else []


def _journal(folder: DriverFolder) -> list[DriverReport]:
    """Reports that were written down; a line that a crash cut short is none."""
    reports = []
    for path in (folder.journal.with_name(f"{folder.journal.name}.1"), folder.journal):
        for line in path.read_bytes().splitlines() if path.exists() else ():
            with contextlib.suppress(msgspec.DecodeError):
                reports.append(_REPORT.decode(line))
    return reports
