"""What a driver that ended left in its folder for a node that was not there to hear it."""

from __future__ import annotations

import contextlib

import msgspec

from millstream.contract.driver_protocol import DriverReport
from millstream.contract.run_folder import DriverFolder

_REPORT = msgspec.json.Decoder(DriverReport)


def last_words(folder: DriverFolder, token: int, *, after: int) -> list[DriverReport]:
    """The reports of a driver that ended in order: those of its journal behind a number, and its result.

    Raises:
        BadRunFolder: the result cannot be read.
    """
    result = folder.read_result()
    if result is None or result.token != token:
        return []
    return [*(each for each in _journal(folder) if after < each.seq < result.seq), result]


def _journal(folder: DriverFolder) -> list[DriverReport]:
    """Reports that were written down; a line that a crash cut short is none."""
    reports = []
    for path in (folder.journal.with_name(f"{folder.journal.name}.1"), folder.journal):
        for line in path.read_bytes().splitlines() if path.exists() else ():
            with contextlib.suppress(msgspec.DecodeError):
                reports.append(_REPORT.decode(line))
    return reports
