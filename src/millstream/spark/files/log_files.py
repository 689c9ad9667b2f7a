"""What Spark's logs say: the plan of every epoch it began, and the state that every committed epoch left."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import msgspec

from millstream.checkpoint.names import stored_part
from millstream.errors import CheckpointRefused
from millstream.plan.epoch import EpochPlan, plan_from_json
from millstream.spark.files.state_files import Chain, damage, version_chain


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class OffsetEntry:
    """A file of `offsets/`: the plan of an epoch; `what` says why it cannot be used."""

    file: Path
    plan: EpochPlan | None = None
    what: str | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CommitEntry:
    """A file of `commits/`: the state that an epoch left, by operator and partition."""

    file: Path
    states: dict[int, list[str]] = dataclasses.field(default_factory=dict)
    what: str | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SparkLogs:
    """What Spark's checkpoint folder holds."""

    folder: Path
    metadata: str | None
    """Why Spark's identity file cannot be used."""
    offsets: dict[int, OffsetEntry]
    commits: dict[int, CommitEntry]

    @property
    def is_empty(self) -> bool:
        """Whether no epoch was ever begun."""
        return not self.offsets and not self.commits


def read_logs(folder: Path) -> SparkLogs:
    """Read Spark's logs; files that cannot be read are listed with the reason, nothing is raised."""
    return SparkLogs(
        folder=folder,
        metadata=_metadata(folder / "metadata"),
        offsets={epoch: _offset(epoch, file) for epoch, file in _entries(folder / "offsets")},
        commits={epoch: _commit(file) for epoch, file in _entries(folder / "commits")},
    )


def _entries(folder: Path) -> list[tuple[int, Path]]:
    files = folder.iterdir() if folder.is_dir() else iter(())
    return sorted((int(file.name), file) for file in files if file.name.isdigit())


def _metadata(file: Path) -> str | None:
    what = damage(file)
    if what is not None:
        return what
    try:
        identity = json.loads(file.read_bytes())["id"]
    except (ValueError, KeyError, TypeError):
        identity = None
    return None if isinstance(identity, str) and identity else "does not hold the id of a query"


def _offset(epoch: int, file: Path) -> OffsetEntry:
    what = damage(file)
    if what is not None:
        return OffsetEntry(file=file, what=what)
    try:
        version, _, offset = file.read_text().strip().split("\n")
        plan = plan_from_json(json.loads(offset))
    except (ValueError, msgspec.MsgspecError, FileNotFoundError):
        return OffsetEntry(file=file, what="does not hold an epoch plan")
    if version != "v1":
        return OffsetEntry(file=file, what=f"has another format, {version!r}")
    if plan.epoch != epoch:
        return OffsetEntry(file=file, what=f"holds the plan of epoch {plan.epoch}")
    return OffsetEntry(file=file, plan=plan)


def _commit(file: Path) -> CommitEntry:
    what = damage(file)
    if what is not None:
        return CommitEntry(file=file, what=what)
    try:
        version, content = file.read_text().strip().split("\n")
        ids = json.loads(content).get("stateUniqueIds") or {}
        states = {
            int(operator): [stored_part(stores[0], of="a version of state") for stores in partitions]
            for operator, partitions in ids.items()
        }
    except (ValueError, TypeError, AttributeError, IndexError, FileNotFoundError, CheckpointRefused):
        return CommitEntry(file=file, what="does not hold a commit")
    if version not in ("v1", "v2", "v3"):
        return CommitEntry(file=file, what=f"has another format, {version!r}")
    return CommitEntry(file=file, states=states)


def state_chains(logs: SparkLogs, epoch: int) -> list[Chain]:
    """The state files that the commit of an epoch names: one chain per operator and partition."""
    return [
        version_chain(logs.folder / "state" / str(operator) / str(partition), epoch + 1, uid)
        for operator, uids in logs.commits[epoch].states.items()
        for partition, uid in enumerate(uids)
    ]


def retained_epochs(logs: SparkLogs) -> list[int]:
    """Epochs whose offset and commit can be read and whose state is still there; its content is not verified."""
    return [
        epoch
        for epoch, commit in logs.commits.items()
        if commit.what is None
        and epoch in logs.offsets
        and logs.offsets[epoch].what is None
        and all(file.exists() for file in _newest_changelogs(logs, epoch))
    ]


def _newest_changelogs(logs: SparkLogs, epoch: int) -> list[Path]:
    return [
        logs.folder / "state" / str(operator) / str(partition) / f"{epoch + 1}_{uid}.changelog"
        for operator, uids in logs.commits[epoch].states.items()
        for partition, uid in enumerate(uids)
    ]


def retained_text(logs: SparkLogs) -> str:
    """The retained epochs in words."""
    epochs = retained_epochs(logs)
    return f"epochs {epochs[0]} to {epochs[-1]}" if epochs else "no epoch"
