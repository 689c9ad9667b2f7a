"""What the manifest of an epoch says, and where it lies, as the index keeps it: positions, layouts, transactions, never rows."""

from __future__ import annotations

import logging
from typing import Any

from millstream.checkpoint.manifest import EpochManifest, source_connectors
from millstream.contract.run_folder import DriverFolder
from millstream.control.nodes.reports import StateData
from millstream.errors import MillstreamError
from millstream.inspect.checkpoint import open_view

_log = logging.getLogger(__name__)


def state_data_of(folder: DriverFolder) -> StateData:
    """Looks into the checkpoint of a run; an epoch whose manifest is gone has none."""

    def look(epoch: int) -> dict[str, Any] | None:
        try:
            spec = folder.read_spec()
            with open_view(spec.checkpoint, spec.manifests, read_only=True) as view:
                return {**state_data(view.manifest(epoch)), "path": spec.checkpoint}
        except (MillstreamError, OSError) as problem:
            # It was pruned since, or its store is away: the index is no truth, and the run goes on.
            _log.debug("the manifest of epoch %s could not be read: %s", epoch, problem)
            return None

    return look


def state_data(manifest: EpochManifest) -> dict[str, Any]:
    """The parts of a manifest that people look for."""
    connectors = source_connectors(manifest)
    sinks = {uid: record for uid, record in manifest.participants.items() if record.type.startswith("sink")}
    return {
        "checkpoint_id": manifest.epoch,
        "timestamp": manifest.created_at,
        "lineage": manifest.lineage,
        "kind": manifest.kind,
        "source_state": {
            uid: {"type": connectors.get(uid, ""), "position": {"start": each.start, "end": each.end}}
            for uid, each in manifest.sources.items()
        },
        "operator_state": {
            "layout": manifest.operators,
            "entries": {uid: counts for uid, counts in manifest.counts.items() if uid in manifest.operators},
            "bytes": sum(each.bytes for each in manifest.segments),
        },
        "sink_state": {
            uid: {"type": record.type, "transaction": {"token": manifest.token, "epoch": manifest.epoch}}
            for uid, record in sinks.items()
        },
    }
