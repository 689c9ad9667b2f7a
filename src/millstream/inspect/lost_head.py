"""A checkpoint whose head is lost: which manifest it can have named, and what can be done."""

from __future__ import annotations

from millstream.checkpoint.manifest import EpochManifest
from millstream.errors import CheckpointRefused
from millstream.inspect.checkpoint import CheckpointView

RESTORE = "restore it from a copy; or run with --from-savepoint DIR; or start over with --ignore-state-once"
AGAIN = f"{RESTORE}; going back to an older epoch is not safe, since the newest one may be published already"


def way_to_rebuild(view: CheckpointView) -> str:
    """What can be done about a head that is lost or damaged."""
    try:
        newest = only_newest(view)
    except CheckpointRefused as problem:
        return f"{AGAIN}; it cannot be rebuilt: {problem.message}"
    return f"`millstream doctor CHECKPOINT --repair` rebuilds it from manifest {newest.epoch}, the newest of the only lineage"


def only_newest(view: CheckpointView) -> EpochManifest:
    """The one manifest that a lost head can have named.

    A manifest that is written and not yet named by the head may be decided either way: its work is prepared. So the newest
    one serves, as long as no older owner can have written it and it follows the one before.

    Raises:
        CheckpointRefused: (CKPT-019) there is more than one candidate, or the newest does not fit the one before.
    """
    names = _of_newest_run(view)
    if not names:
        msg = "the newest durable epoch is not certain: there are no manifests"
        raise CheckpointRefused(msg, code="CKPT-019", hint=AGAIN)
    lineages = {name.split("/")[1] for name in names}
    newest = view.read_manifest(names[-1])
    before = view.read_manifest(names[-2]) if len(names) > 1 else None
    doubt = None
    if len(lineages) > 1:
        doubt = f"there are {len(lineages)} lineages"
    elif before is not None and before.epoch == newest.epoch:
        doubt = f"two owners wrote epoch {newest.epoch}"
    elif before is not None and (newest.token < before.token or newest.plan.get("follows") != before.digest):
        doubt = f"epoch {newest.epoch} does not follow epoch {before.epoch}"
    if doubt is not None:
        msg = f"the newest durable epoch is not certain: {doubt}"
        raise CheckpointRefused(msg, code="CKPT-019", hint=AGAIN)
    return newest


def _of_newest_run(view: CheckpointView) -> list[str]:
    """The manifests without those of runs that were complete when a later one began."""
    by_lineage: dict[str, list[str]] = {}
    for name in view.store.names("manifests/"):
        by_lineage.setdefault(name.split("/")[1], []).append(name)
    last = {lineage: view.read_manifest(names[-1]) for lineage, names in by_lineage.items() if len(by_lineage) > 1}
    newest = max((manifest.run.number for manifest in last.values()), default=0)
    over = {lineage for lineage, each in last.items() if each.kind == "terminal" and each.run.number < newest}
    return [name for lineage, names in by_lineage.items() if lineage not in over for name in names]
