"""Stages of a pattern: which rows they take, how near these follow each other, and which stages may stand where."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Iterator
from typing import Literal

from millstream.errors import InvalidStep
from millstream.graph.function import FunctionRef
from millstream.graph.texts import ExpressionText

Contiguity = Literal["strict", "relaxed", "any", "not_next", "not_followed"]
Join = Literal["and", "or"]
CONTIGUITIES: tuple[Contiguity, ...] = ("strict", "relaxed", "any", "not_next", "not_followed")
NOTS = ("not_next", "not_followed")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MARKS = {"strict": "next", "relaxed": "followed by", "any": "followed by any"} | {
    "not_next": "not next",
    "not_followed": "not followed by",
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A test of one row: expression text, or a Python function of the row and, if it takes two, of the match so far."""

    text: ExpressionText | None = None
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
            times = f"{self.least} to {self.most}"
            hint = "count from one upwards; a stage that may be missing is optional(), or times(0, 3)"
            raise refused(times, "STEP-101", f"stage {self.label} has a wrong number of times", hint)
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

    def describe(self, *, is_first: bool) -> str:
        """The stage in a pattern, and unless it is the first how near it follows."""
        most = "" if self.most is None else self.most
        times = "" if self.least == self.most == 1 else f"{{{self.least},{most}}}"
        marks = times + ("?" if self.optional else "") + (" greedy" if self.greedy else "")
        marks += f" {self.repeat_gap} ms apart" if self.repeat_gap is not None else ""
        return ("" if is_first else f"{_MARKS[self.contiguity]} ") + self.label + marks


def refused(given: object, code: str, msg: str, hint: str = "correct the pattern") -> InvalidStep:
    """What is wrong with a pattern."""
    return InvalidStep(msg, code=code, found=repr(given), hint=hint)


def check_sequence(stages: tuple[Stage, ...], *, has_time: bool = False, is_group: bool = False) -> None:
    """Refuse stages that cannot follow each other."""
    if not stages or stages[0].is_not:
        first = stages[0].label if stages else ""
        raise refused(first, "STEP-103", "a pattern cannot begin with what must not come", "begin with rows that come")
    if all(stage.optional or stage.is_not for stage in stages):
        labels = " ".join(stage.label for stage in stages)
        msg = "a pattern, and a group, needs a stage that must come; all of these are optional"
        raise refused(labels, "STEP-103", msg, "make one of them required")
    for before, stage in itertools.pairwise(stages):
        if stage.is_not and before.optional:
            hint = f"make {before.label} required"
            raise refused(stage.label, "STEP-103", "what must not come cannot stand behind an optional stage", hint)
    _check_end(stages, has_time=has_time, is_group=is_group)


def _check_end(stages: tuple[Stage, ...], *, has_time: bool, is_group: bool) -> None:
    """How long to wait for what must not come has to be clear without rows that may still come."""
    ending = list(stages)
    while ending[-1].optional:
        ending.pop()
    last, before = ending[-1], ending[-2:][0]
    if last.contiguity != "not_followed":
        return
    if len(ending) < len(stages):
        msg, hint = "only optional stages stand behind not_followed_by", "make one of them required, or remove them"
    elif is_group:
        msg, hint = "a group cannot end with not_followed_by", "move it behind the group"
    elif not has_time and last.gap is None:
        msg, hint = "a pattern that ends with not_followed_by needs a time to wait", "add within('10s')"
    elif before.contiguity == "not_followed":
        msg, hint = (
            "a pattern cannot end with two not_followed_by",
            "join their conditions with or_where() in one stage",
        )
    elif last.gap is not None and (before.is_repeated or before.group):
        msg = "behind a repeated stage or a group it is not clear which row not_followed_by waits from"
        hint = "limit the whole pattern instead: within('10s')"
    else:
        return
    raise refused(last.label, "STEP-104", msg, hint)


def _is_count(number: object, least: int = 1) -> bool:
    return type(number) is int and number >= least
