"""A pattern as a value: stages in order, how much time they have, and what happens after a match."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator
from typing import Any, Literal

from millstream.errors import InvalidStep
from millstream.graph.function import FunctionRef
from millstream.graph.patterns.stage import Clause, Condition, Stage, check_sequence, refused

Skip = Literal["no_skip", "to_next", "past_last", "to_first", "to_last"]
SKIPS: tuple[Skip, ...] = ("no_skip", "to_next", "past_last", "to_first", "to_last")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PatternSpec:
    """A whole pattern."""

    stages: tuple[Stage, ...]
    within: int | None = None
    """The last row comes less than so many milliseconds after the first."""
    skip: Skip = "no_skip"
    skip_to: str | None = None
    name: str = "pattern"
    """Tells patterns apart that one step looks for."""

    def __post_init__(self) -> None:
        if self.within is not None and self.within <= 0:
            raise refused(self.within, "STEP-106", "a pattern needs a time above zero", "correct within()")
        check_sequence(self.stages, has_time=self.within is not None)
        self._check_gaps()
        names = self.names
        doubled = sorted({name for name in names if names.count(name) > 1})
        if doubled:
            raise refused(", ".join(doubled), "STEP-100", "stages share a name", "rename one of them")
        self._check_skip()

    def _check_gaps(self) -> None:
        for stage in self._all(self.stages):
            if self.within is not None and any(gap > self.within for gap in stage.gaps):
                times = f"{max(stage.gaps)} ms, and {self.within} ms for the whole pattern"
                msg = f"stage {stage.label} waits longer for a row than the whole pattern may take"
                raise InvalidStep(msg, code="STEP-106", found=times, hint="shorten it, or lengthen within()")

    def _check_skip(self) -> None:
        if self.skip not in SKIPS or (self.skip in {"to_first", "to_last"}) != (self.skip_to is not None):
            msg = "unknown way to go on after a match"
            raise InvalidStep(msg, code="STEP-105", found=f"{self.skip} {self.skip_to or ''}", known=SKIPS)
        taken = [stage.name for stage in self.flat if not stage.is_not]
        if self.skip_to is not None and self.skip_to not in taken:
            msg = "no stage to go on at after a match"
            raise InvalidStep(
                msg, code="STEP-105", found=repr(self.skip_to), known=taken, hint="name a stage with rows"
            )

    @property
    def flat(self) -> tuple[Stage, ...]:
        """Every named stage, in order."""
        return tuple(named for stage in self.stages for named in stage.named())

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all stages, in order."""
        return tuple(stage.name for stage in self.flat)

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """Every condition, of stages and of groups."""
        given = [
            condition
            for stage in self._all(self.stages)
            for condition in (*(clause.condition for clause in stage.where), stage.until)
        ]
        return tuple(condition for condition in given if condition is not None)

    @property
    def functions(self) -> tuple[FunctionRef, ...]:
        """The Python conditions."""
        return tuple(each.function for each in self.conditions if each.function is not None)

    def _all(self, stages: tuple[Stage, ...]) -> Iterator[Stage]:
        for stage in stages:
            yield stage
            yield from self._all(stage.group)

    @property
    def version(self) -> str:
        """Names what partial matches depend on: the stages and how they follow each other, not their conditions."""
        text = json.dumps(_structure(pattern_to_json(self)), sort_keys=True, separators=(",", ":"))
        return f"{self.name}:{hashlib.sha256(text.encode()).hexdigest()[:16]}"

    def describe(self) -> str:
        """The pattern in one line."""
        parts = [stage.describe(is_first=place == 0) for place, stage in enumerate(self.stages)]
        window = f" within {self.within} ms" if self.within is not None else ""
        return " ".join(parts) + window + f", then {self.skip}" + (f" {self.skip_to}" if self.skip_to else "")


def pattern_to_json(pattern: PatternSpec) -> dict[str, Any]:
    """The pattern as a JSON value; what has its default is left out."""
    value: dict[str, Any] = _written(pattern)
    return value


def _written(value: Any) -> Any:
    if isinstance(value, FunctionRef):
        return value.name
    if isinstance(value, tuple):
        return [_written(item) for item in value]
    if isinstance(value, Condition) and value.text is not None:
        return value.text
    if isinstance(value, Clause) and value.join == "and" and value.condition.text is not None:
        return value.condition.text
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        kept = [field for field in dataclasses.fields(value) if getattr(value, field.name) != field.default]
        return {field.name: _written(getattr(value, field.name)) for field in kept}
    return value


def _structure(value: Any) -> Any:
    if isinstance(value, list):
        return [_structure(item) for item in value]
    if isinstance(value, dict):
        return {key: _structure(item) for key, item in value.items() if key not in {"where", "until", "name"}}
    return value
