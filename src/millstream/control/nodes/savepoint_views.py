"""Records of savepoints, read where their files are: by a node, for the rows of the service and for servers that ask."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from millstream.checkpoint.savepoint import Savepoint, read_savepoint
from millstream.checkpoint.savepoint_files import files_of
from millstream.contract.driver_protocol import DriverReport
from millstream.errors import MillstreamError

_log = logging.getLogger(__name__)
_RECORD = "record"


def savepoint_record(asked: Mapping[str, str]) -> dict[str, Any]:
    """The record of a savepoint, for a server; servers name no paths but those in the service's own rows.

    Raises:
        CheckpointRefused: (SAVE-001) this node sees none there, (SAVE-002, SAVE-003) it cannot be read.
    """
    record: dict[str, Any] = msgspec.to_builtins(read_savepoint(asked.get("path", "")), str_keys=True)
    return record


def with_records(reports: list[DriverReport]) -> list[DriverReport]:
    """Reports, where those that tell of a savepoint have what its record says. Read before anything is written down."""
    return [_with_record(each) for each in reports]


def _with_record(report: DriverReport) -> DriverReport:
    path = report.body.get("path") if report.type == "answer" and report.body.get("done") else None
    if not path or "text" in report.body or not Path(path).is_absolute():
        return report
    try:
        facts = savepoint_facts(read_savepoint(path))
    except (MillstreamError, OSError) as problem:
        # It was taken, and may be gone by now: the row says where it was, and its files are the truth.
        _log.warning("the record of the savepoint at %s could not be read: %s", path, problem)
        return report
    return msgspec.structs.replace(report, body={**report.body, _RECORD: facts})


def savepoint_facts(savepoint: Savepoint) -> dict[str, Any]:
    """What the row of a savepoint says of it."""
    names = ("epoch", "lineage", "fingerprint")
    told = {name: getattr(savepoint, name) for name in names}
    return {**told, "format": savepoint.kind, "size": sum(each.bytes for each in files_of(savepoint))}


def recorded(body: Mapping[str, Any]) -> dict[str, Any]:
    """What `with_records` added to the body of a report."""
    return dict(body.get(_RECORD, {}))
