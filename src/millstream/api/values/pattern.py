"""Patterns, stage by stage: `ms.pattern.begin("a").where("price > 10").followed_by("b")`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Literal

from millstream.errors import InvalidStep
from millstream.graph.function import function_ref
from millstream.graph.patterns.pattern import PatternSpec, Skip
from millstream.graph.patterns.stage import Clause, Condition, Contiguity, Join, Stage
from millstream.model.time import DurationLike, positive_ms
from millstream.tracebacks import public

ConditionLike = str | Callable[..., Any]
"""Expression text, or `function(row)` or `function(row, context)` with `context.events("stage")`."""
Between = Literal["first_to_last", "previous_to_current"]


@public
@dataclasses.dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern under construction; every method returns a new one, and options belong to the stage named last.

    In expression text, columns without a stage are those of the row under test. `a.price` is that of the last row of stage
    `a`; `first`, `last`, `count`, `sum`, `avg`, `min` and `max` look at the rows of a stage. The row under test counts as
    a row of its own stage already, so that `avg(a.price) < 100` on stage `a` includes it.
    """

    stages: tuple[Stage, ...]
    window: int | None = None
    skip: Skip = "no_skip"
    skip_to: str | None = None
    is_counted: bool = False
    """Whether it was said how often the stage named last comes."""

    def next(self, stage: str | Pattern) -> Pattern:
        """The next row belongs to this stage."""
        return self._then(stage, "strict")

    def followed_by(self, stage: str | Pattern) -> Pattern:
        """The next row that fits belongs to this stage; rows that do not fit may come between."""
        return self._then(stage, "relaxed")

    def followed_by_any(self, stage: str | Pattern) -> Pattern:
        """Every later row that fits makes a match of its own."""
        return self._then(stage, "any")

    def not_next(self, stage: str) -> Pattern:
        """The next row does not fit this stage."""
        return self._then(stage, "not_next")

    def not_followed_by(self, stage: str) -> Pattern:
        """No row fits this stage before the next stage begins, or before the time of `within` has passed."""
        return self._then(stage, "not_followed")

    def where(self, condition: ConditionLike) -> Pattern:
        """Only rows for which this is true as well."""
        return self._clause("and", condition)

    def or_where(self, condition: ConditionLike) -> Pattern:
        """Rows for which what was said so far is true, or this."""
        return self._clause("or", condition)

    def until(self, condition: ConditionLike) -> Pattern:
        """A row for which this is true ends a repeated stage."""
        if self.stages[-1].until is not None:
            raise _said_twice(self.stages[-1], "until()", "join the conditions with OR")
        return self._with(until=_condition(condition))

    def times(self, least: int, most: int | None = None, *, within: DurationLike | None = None) -> Pattern:
        """So many rows, or between so many; other rows may come between unless `consecutive` is said.

        Args:
            least: how many rows at least; zero, with `most`, for a stage that may be left out.
            most: how many rows at most; as many as at least if it is not given.
            within: two rows of the stage that follow each other are less than this apart.
        """
        if type(least) is int and least == 0 and most:
            return self._counted(1, most, within).optional()
        return self._counted(least, least if most is None else most, within)

    def times_or_more(self, least: int, *, within: DurationLike | None = None) -> Pattern:
        """So many rows or more, each less than `within` behind the one before."""
        return self._counted(least, None, within)

    def one_or_more(self, *, within: DurationLike | None = None) -> Pattern:
        """One row or more, each less than `within` behind the one before."""
        return self._counted(1, None, within)

    def optional(self) -> Pattern:
        """The stage may be left out."""
        return self._with(optional=True)

    def greedy(self) -> Pattern:
        """As many rows as possible: a row that fits a repeated stage is not tried on the next stage."""
        return self._with(greedy=True)

    def consecutive(self) -> Pattern:
        """No other row may come between the rows of a repeated stage."""
        return self._repeated("strict", "consecutive()")

    def allow_combinations(self) -> Pattern:
        """A repeated stage may leave out rows that fit."""
        return self._repeated("any", "allow_combinations()")

    def within(self, time: DurationLike, between: Between = "first_to_last") -> Pattern:
        """Limit the time of a match.

        Args:
            time: the rows are less than this apart.
            between: the first and the last row of the match, or the row of this stage and the row before it.
        """
        limit = positive_ms(time, what="within")
        if between == "previous_to_current":
            return self._with(gap=_shorter(limit, self.stages[-1].gap))
        if between != "first_to_last":
            msg = "within() knows no such rows"
            known = ("first_to_last", "previous_to_current")
            raise InvalidStep(msg, code="STEP-106", found=repr(between), known=known, hint="correct between=")
        return dataclasses.replace(self, window=_shorter(limit, self.window))

    def no_skip(self) -> Pattern:
        """Give every match."""
        return dataclasses.replace(self, skip="no_skip", skip_to=None)

    def skip_to_next(self) -> Pattern:
        """After a match, drop the others that begin with the same row."""
        return dataclasses.replace(self, skip="to_next", skip_to=None)

    def skip_past_last_event(self) -> Pattern:
        """After a match, drop the others that begin before it ends."""
        return dataclasses.replace(self, skip="past_last", skip_to=None)

    def skip_to_first(self, stage: str) -> Pattern:
        """After a match, drop the others that begin before the first row of a stage."""
        return dataclasses.replace(self, skip="to_first", skip_to=stage)

    def skip_to_last(self, stage: str) -> Pattern:
        """After a match, drop the others that begin before the last row of a stage."""
        return dataclasses.replace(self, skip="to_last", skip_to=stage)

    @property
    def spec(self) -> PatternSpec:
        """The pattern as a value; what is wrong with it as a whole is refused here."""
        return PatternSpec(stages=self.stages, within=self.window, skip=self.skip, skip_to=self.skip_to)

    def _then(self, stage: str | Pattern, contiguity: Contiguity) -> Pattern:
        return dataclasses.replace(self, stages=(*self.stages, _stage(stage, contiguity)), is_counted=False)

    def _counted(self, least: int, most: int | None, within: DurationLike | None) -> Pattern:
        if self.is_counted:
            raise _said_twice(self.stages[-1], "how often it comes", "keep one of them; times(2, 4) is a range")
        gap = None if within is None else positive_ms(within, what="within")
        return dataclasses.replace(self._with(least=least, most=most, repeat_gap=gap), is_counted=True)

    def _with(self, **options: Any) -> Pattern:
        changed = dataclasses.replace(self.stages[-1], **options)
        return dataclasses.replace(self, stages=(*self.stages[:-1], changed))

    def _clause(self, join: Join, condition: ConditionLike) -> Pattern:
        return self._with(where=(*self.stages[-1].where, Clause(join=join, condition=_condition(condition))))

    def _repeated(self, inner: Contiguity, what: str) -> Pattern:
        if not self.stages[-1].is_repeated:
            msg = f"{what} needs a repeated stage"
            raise InvalidStep(msg, code="STEP-102", found=self.stages[-1].label, hint="call one_or_more() before")
        return self._with(inner=inner)


@public
def begin(stage: str | Pattern) -> Pattern:
    """Begin a pattern with a stage, or with a whole pattern as a group."""
    return Pattern((_stage(stage, "strict"),))


def _stage(stage: str | Pattern, contiguity: Contiguity) -> Stage:
    if isinstance(stage, Pattern):
        return Stage(group=stage.stages, contiguity=contiguity)
    return Stage(name=stage, contiguity=contiguity)


def _shorter(limit: int, other: int | None) -> int:
    """Of several limits the shortest counts."""
    return limit if other is None else min(limit, other)


def _said_twice(stage: Stage, what: str, hint: str) -> InvalidStep:
    msg = f"stage {stage.label} says {what} twice"
    return InvalidStep(msg, code="STEP-200", found=stage.label, hint=hint)


def _condition(condition: ConditionLike) -> Condition:
    if isinstance(condition, str):
        return Condition(text=condition)
    return Condition(function=function_ref(condition))
