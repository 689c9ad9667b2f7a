"""The savepoints that one run takes, and what it tells about them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from millstream.api.running.control import Pending
from millstream.api.running.result import RunResult
from millstream.api.running.run_log import RunLog
from millstream.checkpoint.manifest import EpochManifest
from millstream.checkpoint.savepoint import CopiedFile
from millstream.errors import ExternalFailure, MillstreamError
from millstream.jobmaster.requests import Requests
from millstream.jobmaster.savepoint.native import keep_manifest
from millstream.jobmaster.savepoint.take import take_savepoint
from millstream.plan.epoch import SavepointRequest
from millstream.runtime.messages import TaskReport


class RunSavepoints:
    """Takes savepoints of the lineage that a run is in."""

    def __init__(
        self,
        key_groups: int,
        history: list[tuple[str, int]],
        source_folders: Mapping[str, Path],
        result: RunResult,
        log: RunLog,
    ) -> None:
        """`history` names the earlier lineages that count; `source_folders` those of the sources, by uid."""
        self._key_groups, self._history, self._source_folders = key_groups, history, source_folders
        self._result, self._log = result, log

    def export(self, wanted: SavepointRequest, manifest: EpochManifest, reports: Sequence[TaskReport]) -> None:
        """Make a canonical savepoint valid, whose pages the tasks of its epoch have written."""
        take_savepoint(
            wanted.path,
            wanted.id,
            manifest,
            key_groups=self._key_groups,
            history=self._history_with(manifest),
            files=[report.savepoint for report in reports],
            sources=self._source_folders,
        )
        self._result.savepoint = wanted.path
        self._log.at(epoch=manifest.epoch)
        self._log.savepoint(wanted.id, wanted.path, "canonical")

    def serve_native(
        self, requests: Requests, newest: EpochManifest | None, copy: Callable[[Path, int], list[CopiedFile]]
    ) -> None:
        """Answer the request for a native savepoint; one that fails leaves the run as it is."""
        pending = requests.native
        assert pending is not None, "called when a native savepoint is wanted"
        try:
            path = self._copied(requests.native_path, pending, newest, copy)
        except (MillstreamError, OSError) as problem:
            self._log.savepoint_failed(pending.request.id, problem)
            requests.savepoint_failed(pending, problem)
            return
        self._result.savepoint = str(path)
        self._log.savepoint(pending.request.id, str(path), "native")
        requests.savepoint_done(pending, str(path))

    def _copied(
        self,
        path_of: Callable[[Pending], Path],
        pending: Pending,
        newest: EpochManifest | None,
        copy: Callable[[Path, int], list[CopiedFile]],
    ) -> Path:
        if newest is None:
            msg = "no epoch is durable yet"
            raise ExternalFailure(msg, code="RUN-012", hint="ask again after the first epoch")
        path = path_of(pending)
        take_savepoint(
            path,
            pending.request.id,
            newest,
            key_groups=self._key_groups,
            history=self._history_with(newest),
            native=[keep_manifest(path, newest), *copy(path, newest.epoch)],
            sources=self._source_folders,
            kind="native",
        )
        return path

    def _history_with(self, manifest: EpochManifest) -> list[tuple[str, int]]:
        return [*self._history, (manifest.lineage, manifest.epoch)]
