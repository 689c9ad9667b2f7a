"""A pattern as a value: stages in order, how near they follow each other, and what happens after a match."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Iterator
from typing import Any, Literal

from millstream.errors import InvalidStep
from millstream.graph.function import FunctionRef
from millstream.graph.patterns.checks import check_sequence, refused

Contiguity = Literal["strict", "relaxed", "any", "not_next", "not_followed"]
Join = Literal["and", "or"]
Skip = Literal["no_skip", "to_next", "past_last", "to_first", "to_last"]
CONTIGUITIES: tuple[Contiguity, ...] = ("strict", "relaxed", "any", "not_next", "not_followed")
SKIPS: tuple[Skip, ...] = ("no_skip", "to_next", "past_last", "to_first", "to_last")
NOTS = ("not_next", "not_followed")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A test of one row: expression text, or a Python function of the row and, if it takes two, of the match so far."""

    text: str | None = None
    function: FunctionRef | None = None

    def __post_init__(self) -> None:
        if (self.text is None) == (self.function is None):
            msg = "a condition is an expression or a function"
            raise InvalidStep(msg, code="STEP-107", found=repr(self.text), hint="write where('price > 10')")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    """One `where` or `or_where`; clauses are joined from left to right."""

    join: Join = "and"
    condition: Condition

    def __post_init__(self) -> None:
        if self.join not in {"and", "or"}:
            raise refused(self.join, "STEP-107", "conditions are joined by and, or by or", "correct join")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Rows that must come one behind the other, or must not: a named stage, or a group of stages."""

    name: str = ""
    contiguity: Contiguity = "strict"
    """How near the first row of the stage follows the row before it; the first stage of a pattern is strict."""
    where: tuple[Clause, ...] = ()
    until: Condition | None = None
    least: int = 1
    most: int | None = 1
    """`None` for any number."""
    optional: bool = False
    greedy: bool = False
    """Take as many rows as possible: a row that fits the repeated stage is not tried on the next one."""
    inner: Contiguity = "relaxed"
    """How near the rows of a repeated stage follow each other."""
    gap: int | None = None
    """The row must come within so many milliseconds of the row before it; of a group, the first of each pass."""
    repeat_gap: int | None = None
    """Between two repetitions; the first row of the stage may come later."""
    group: tuple[Stage, ...] = ()

    def __post_init__(self) -> None:
        if not self.group and not _NAME.fullmatch(self.name):
            raise refused(self.name, "STEP-100", "a stage needs a name of letters, digits and _", "name the stage")
        for kind, known in ((self.contiguity, CONTIGUITIES), (self.inner, CONTIGUITIES[:3])):
            if kind not in known:
                raise refused(kind, "STEP-102", f"stage {self.label} has an unknown contiguity", "use a known one")
        if not _is_count(self.least) or (self.most is not None and not _is_count(self.most, self.least)):
            found = f"{self.least} to {self.most}"
            hint = "count from one upwards; a stage that may be missing is optional(), or times(0, 3)"
            raise refused(found, "STEP-101", f"stage {self.label} has a wrong number of times", hint)
        for gap in self.gaps:
            if gap <= 0:
                raise refused(gap, "STEP-106", f"stage {self.label} needs a time above zero", "correct within")
        self._check_options()

    def _check_options(self) -> None:
        if self.is_not and (self.is_repeated or self.optional or self.greedy or self.group or self.until):
            raise refused(self.label, "STEP-102", "what must not come cannot be repeated, optional or a group")
        if self.greedy and (self.group or not self.is_repeated):
            raise refused(self.label, "STEP-102", "only a repeated stage can be greedy, and no group")
        if self.until is not None and self.most is not None:
            raise refused(self.label, "STEP-102", "until() needs one_or_more() or times_or_more()")
        if self.repeat_gap is not None and not self.is_repeated:
            raise refused(self.label, "STEP-102", "a stage without repetitions has no time between them")
        if self.group and self.where:
            raise refused(self.label, "STEP-102", "a group has no condition of its own")
        if self.group:
            check_sequence(self.group, is_group=True)

    @property
    def label(self) -> str:
        """The name in messages; a group is called by its stages."""
        return self.name or "(" + " ".join(stage.label for stage in self.group) + ")"

    @property
    def gaps(self) -> tuple[int, ...]:
        """The limits of time between two rows."""
        return tuple(gap for gap in (self.gap, self.repeat_gap) if gap is not None)

    @property
    def is_not(self) -> bool:
        """Whether its rows must not come."""
        return self.contiguity in NOTS

    @property
    def is_repeated(self) -> bool:
        """Whether it may take more than one row."""
        return self.most != 1

    def named(self) -> Iterator[Stage]:
        """The stage itself, or the stages of the group, groups in it included."""
        if not self.group:
            yield self
        for stage in self.group:
            yield from stage.named()


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
                found = f"{max(stage.gaps)} ms, and {self.within} ms for the whole pattern"
                msg = f"stage {stage.label} waits longer for a row than the whole pattern may take"
                raise InvalidStep(msg, code="STEP-106", found=found, hint="shorten it, or lengthen within()")

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
        found = [
            condition
            for stage in self._all(self.stages)
            for condition in (*(clause.condition for clause in stage.where), stage.until)
        ]
        return tuple(condition for condition in found if condition is not None)

    @property
    def functions(self) -> tuple[FunctionRef, ...]:
        """The Python conditions."""
        return tuple(found.function for found in self.conditions if found.function is not None)

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
        parts = [_described(stage, place) for place, stage in enumerate(self.stages)]
        window = f" within {self.within} ms" if self.within is not None else ""
        return " ".join(parts) + window + f", then {self.skip}" + (f" {self.skip_to}" if self.skip_to else "")


_MARKS = {"strict": "next", "relaxed": "followed by", "any": "followed by any"} | {
    "not_next": "not next",
    "not_followed": "not followed by",
}


def _described(stage: Stage, place: int) -> str:
    most = "" if stage.most is None else stage.most
    times = "" if stage.least == stage.most == 1 else f"{{{stage.least},{most}}}"
    marks = times + ("?" if stage.optional else "") + (" greedy" if stage.greedy else "")
    marks += f" {stage.repeat_gap} ms apart" if stage.repeat_gap is not None else ""
    return (f"{_MARKS[stage.contiguity]} " if place else "") + stage.label + marks


def _is_count(found: object, least: int = 1) -> bool:
    return type(found) is int and found >= least


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
