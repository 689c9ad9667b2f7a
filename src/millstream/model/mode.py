"""The three modes of a job: what kind of input it works off, and which of them the sources of a job fit."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from enum import StrEnum

from millstream.errors import InvalidPlan, InvalidStep


class Mode(StrEnum):
    """How a job meets its input."""

    STREAMING = "STREAMING"
    BATCH_ROLLER = "BATCH_ROLLER"
    SQL_TASK = "SQL_TASK"


MODE_TEXTS: dict[Mode, str] = {
    Mode.STREAMING: "rows as they come",
    Mode.BATCH_ROLLER: "page by page until there is none left",
    Mode.SQL_TASK: "a query to its end, by key",
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ModeOfSource:
    """What a source says about the mode of its job."""

    step: str
    mode: Mode
    is_bounded: bool

    def __str__(self) -> str:
        """The source in words."""
        return f"{self.step!r} ({self.mode.value}, {'bounded' if self.is_bounded else 'unbounded'})"


def mode_named(value: str) -> Mode:
    """Read a mode by name."""
    try:
        return Mode(value)
    except ValueError:
        msg = "unknown mode"
        raise InvalidStep(
            msg, code="STEP-006", found=repr(value), known=[mode.value for mode in Mode], hint="pass mode='STREAMING'"
        ) from None


def mode_of_sources(sources: Collection[ModeOfSource], said: Mode | None) -> Mode:
    """The mode of a job: the one that its author said, if the sources fit it, or the one that follows from them.

    A streaming job has a source that gives rows as they come or has no end. A job of another mode has a source of that mode,
    and every source of it ends.
    """
    fitting = [mode for mode in Mode if _fits(mode, sources)]
    if said is not None:
        if sources and said not in fitting:
            raise _misfit(said, sources, fitting)
        return said
    is_bounded = all(source.is_bounded for source in sources)
    ending = [mode for mode in fitting if mode is not Mode.STREAMING] if is_bounded else []
    if len(ending) > 1:
        raise _ambiguous(sources, ending)
    return ending[0] if ending else Mode.STREAMING


def _fits(mode: Mode, sources: Collection[ModeOfSource]) -> bool:
    if mode is Mode.STREAMING:
        return any(source.mode is mode or not source.is_bounded for source in sources)
    return all(source.is_bounded for source in sources) and any(source.mode is mode for source in sources)


def _misfit(said: Mode, sources: Collection[ModeOfSource], fitting: Collection[Mode]) -> InvalidPlan:
    needs = (
        "a source that gives rows as they come, or one without an end"
        if said is Mode.STREAMING
        else f"a source of that mode, and no source without an end; it reads {MODE_TEXTS[said]}"
    )
    msg = f"the sources do not fit mode {said.value}, which needs {needs}"
    return InvalidPlan(
        msg,
        code="PLAN-043",
        found=", ".join(map(str, sources)),
        known=[mode.value for mode in fitting],
        hint="leave mode= out: it follows from the sources; or use other sources",
    )


def _ambiguous(sources: Collection[ModeOfSource], ending: Collection[Mode]) -> InvalidPlan:
    msg = "the sources are of several modes, and the job does not say which is its own"
    known = [mode.value for mode in ending]
    return InvalidPlan(
        msg, code="PLAN-043", found=", ".join(map(str, sources)), known=known, hint=f"pass mode={known[0]!r}"
    )
