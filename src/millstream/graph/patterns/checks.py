"""What stages may stand where: how a pattern or a group begins, and when it is clear that it ended."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from millstream.errors import InvalidStep

if TYPE_CHECKING:
    from millstream.graph.patterns.pattern import Stage


def refused(found: object, code: str, msg: str, hint: str = "correct the pattern") -> InvalidStep:
    """What is wrong with a pattern."""
    return InvalidStep(msg, code=code, found=repr(found), hint=hint)


def check_sequence(stages: tuple[Stage, ...], *, has_time: bool = False, is_group: bool = False) -> None:
    """Refuse stages that cannot follow each other."""
    if not stages or stages[0].is_not:
        found = stages[0].label if stages else ""
        raise refused(found, "STEP-103", "a pattern cannot begin with what must not come", "begin with rows that come")
    if all(stage.optional or stage.is_not for stage in stages):
        found = " ".join(stage.label for stage in stages)
        msg = "a pattern, and a group, needs a stage that must come; all of these are optional"
        raise refused(found, "STEP-103", msg, "make one of them required")
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
