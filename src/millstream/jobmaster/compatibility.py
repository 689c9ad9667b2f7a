"""Whether a job fits what another version of it left: one verdict per step, source and sink, before anything runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Literal, TypeVar

import msgspec

from millstream.errors import CheckpointRefused
from millstream.graph.operations.endpoints import Sink, Source
from millstream.jobmaster.connectors import nodes_of, sink_protocol
from millstream.plan.deployment import DeploymentPlan
from millstream.runtime.operators.kinds import stores_of
from millstream.runtime.operators.layouts import layouts_of
from millstream.state.compat.layout_changes import layout_changes
from millstream.state.compat.type_changes import Change
from millstream.state.layout import StateLayout
from millstream.state.slots import Slot, Store

T = TypeVar("T")
Kind = Literal["state", "source", "sink"]
Level = Literal["identical", "compatible", "new", "dropped", "incompatible"]
_SEVERITY: tuple[Level, ...] = ("identical", "compatible", "new", "dropped", "incompatible")
_NOTES: dict[tuple[Kind, Level], str] = {
    ("state", "new"): "starts without state",
    ("state", "dropped"): "its state is left behind",
    ("source", "new"): "starts at its beginning",
    ("source", "dropped"): "its position is left behind",
    ("sink", "new"): "writes from the next epoch on",
    ("sink", "dropped"): "what it wrote stays as it is",
}


class JobShape(msgspec.Struct, frozen=True, kw_only=True):
    """What a job keeps between epochs, without the content: what two versions of it are compared by."""

    fingerprint: str
    parallelism: int
    depth: int
    """Levels above 0."""
    layouts: dict[str, StateLayout] = {}
    """Per keyed step, by uid."""
    sources: dict[str, str] = {}
    """Per source, by uid: its connector."""
    sinks: dict[str, str] = {}
    """Per sink, by uid: its protocol."""
    migrations: dict[str, list[str]] = {}
    """Per keyed step, by uid: the states that declare `migrate=`. Only what the running job declares counts."""


def shape_of(deployment: DeploymentPlan) -> JobShape:
    """The shape of a compiled job."""
    plan = deployment.plan
    nodes = nodes_of(deployment)
    keyed = [node for node in nodes if node.runs_as == "keyed"]
    return JobShape(
        fingerprint=plan.fingerprint.whole,
        parallelism=plan.parallelism,
        depth=plan.depth,
        layouts=layouts_of(deployment),
        sources={node.uid: node.operation.connector.name for node in nodes if isinstance(node.operation, Source)},
        sinks={
            node.uid: sink_protocol(node.operation.connector, deployment)
            for node in nodes
            if isinstance(node.operation, Sink)
        },
        migrations={store.uid: names for node in keyed for store in stores_of(node) if (names := _migrated(store))},
    )


def _migrated(store: Store) -> list[str]:
    slots: tuple[Slot, ...] = store.content if isinstance(store.content, tuple) else ()
    return [slot.name for slot in slots if slot.migrate is not None]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """The verdict on one step."""

    kind: Kind
    uid: str
    level: Level
    changes: tuple[Change, ...] = ()

    @property
    def details(self) -> list[str]:
        """What changed, or what follows, in words."""
        note = _NOTES.get((self.kind, self.level))
        return [str(change) for change in self.changes] or ([note] if note else [])

    def __str__(self) -> str:
        """The verdict with its reasons, in one sentence."""
        reasons = [str(change) for change in self.changes if change.verdict != "compatible"] or self.details
        return f"{self.kind} {self.uid!r} is {self.level}" + (f" ({', '.join(reasons)})" if reasons else "")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CompatibilityReport:
    """The verdicts on all steps that keep something."""

    lines: tuple[Line, ...]
    is_same_plan: bool
    allow_dropped: bool

    def text(self) -> str:
        """The report as an aligned table."""
        rows = [(line.kind, line.uid, line.level, detail) for line in self.lines for detail in line.details or [""]]
        widths = [max((len(row[place]) for row in rows), default=0) for place in range(3)]
        lines = ["the same plan" if self.is_same_plan else "the plan has changed"]
        before: tuple[str, ...] = ()
        for row in rows:
            # The further changes of a step stand below its first one.
            shown = ("", "", "") if row[:2] == before else row[:3]
            before = row[:2]
            cells = [cell.ljust(width) for cell, width in zip(shown, widths, strict=True)]
            lines.append("  ".join([*cells, row[3]]).rstrip())
        return "\n".join(lines)

    @property
    def refused(self) -> tuple[Line, ...]:
        """The lines that forbid to go on."""
        return tuple(line for line in self.lines if self._is_refused(line))

    def _is_refused(self, line: Line) -> bool:
        is_lost = line.level == "dropped" and line.kind != "sink"
        return line.level == "incompatible" or (is_lost and not self.allow_dropped)

    def refusal(self) -> CheckpointRefused | None:
        """The error to raise: names every problem at once; `None` when the job may go on."""
        if not self.refused:
            return None
        levels = {line.level for line in self.refused}
        hints = [hint for level, hint in _WAYS_OUT if level in levels]
        msg = "the job does not fit what is stored: " + "; ".join(map(str, self.refused))
        step = self.refused[0].uid if len(self.refused) == 1 else None
        return CheckpointRefused(msg, code="CKPT-040", step=step, hint="; ".join(hints))


_WAYS_OUT: tuple[tuple[Level, str], ...] = (
    ("dropped", "give a renamed step its old name as uid=, or leave the state behind with --allow-dropped-state"),
    (
        "incompatible",
        "undo the change; for a declared state raise version= and give migrate=; or start the step afresh under another "
        "uid= with --allow-dropped-state",
    ),
)


def compare(stored: JobShape, mine: JobShape, *, allow_dropped: bool = False) -> CompatibilityReport:
    """Compare what was stored with what a job would keep.

    Args:
        stored: the shape that a checkpoint or savepoint records.
        mine: the shape of the job that is to go on from it.
        allow_dropped: whether state, states and source positions that the job no longer has may be left behind.
    """

    def state_changes(old: StateLayout, new: StateLayout) -> list[Change]:
        return layout_changes(old, new, mine.migrations.get(new.uid, ()))

    lines = (
        *_lines("state", stored.layouts, mine.layouts, state_changes),
        *_lines("source", stored.sources, mine.sources, _connector_change),
        *_lines("sink", stored.sinks, mine.sinks, _protocol_change),
    )
    is_same = stored.fingerprint == mine.fingerprint
    return CompatibilityReport(lines=lines, is_same_plan=is_same, allow_dropped=allow_dropped)


def obstacles_in_place(stored: JobShape, mine: JobShape) -> list[str]:
    """Why a job cannot go on in the same checkpoint, where pages stay as and where they are; empty when it can.

    Steps without state, sinks and sources may come, go and change. Whatever else changes needs a savepoint.
    """
    reasons = [
        f"{name}: {was} → {now}"
        for name in ("parallelism", "depth")
        if (was := getattr(stored, name)) != (now := getattr(mine, name))
    ]
    for line in compare(stored, mine).lines:
        if line.level == "incompatible" or (line.kind == "state" and line.level in {"new", "dropped"}):
            reasons.append(str(line))
        elif rewritten := [str(change) for change in line.changes if change.is_rewritten]:
            reasons.append(f"{line.kind} {line.uid!r} must be rewritten ({', '.join(rewritten)})")
    for uid, layout in stored.layouts.items():
        if uid in mine.layouts and mine.layouts[uid].level != layout.level:
            reasons.append(f"state {uid!r} moves from level {layout.level} to {mine.layouts[uid].level}")
    return reasons


def _lines(
    kind: Kind, stored: Mapping[str, T], mine: Mapping[str, T], changes_of: Callable[[T, T], list[Change]]
) -> Iterator[Line]:
    for uid in [*mine, *(uid for uid in stored if uid not in mine)]:
        if uid not in stored:
            yield Line(kind=kind, uid=uid, level="new")
        elif uid not in mine:
            yield Line(kind=kind, uid=uid, level="dropped")
        else:
            worst_first = sorted(changes_of(stored[uid], mine[uid]), key=lambda c: -_SEVERITY.index(c.verdict))
            level: Level = worst_first[0].verdict if worst_first else "identical"
            yield Line(kind=kind, uid=uid, level=level, changes=tuple(worst_first))


def _connector_change(old: str, new: str) -> list[Change]:
    return [] if old == new else [Change(field="connector", old=old, new=new, verdict="incompatible")]


def _protocol_change(old: str, new: str) -> list[Change]:
    return [] if old == new else [Change(field="protocol", old=old, new=new, verdict="compatible")]
