"""Every row is accounted for before an epoch becomes durable: none vanishes, and no more are put aside than was agreed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from millstream.errors import MillstreamError, StepFailed
from millstream.graph.operations.endpoints import LetterLimits, Sink
from millstream.graph.step import DEAD
from millstream.graph.stream_graph import StreamNode
from millstream.model.counts import Counts, StepCounts, total

_ENOUGH = 100
"""Rows that a step must have met before the share of bad ones says anything."""


def check_accounts(counts: Counts) -> None:
    """Refuse an epoch in which rows of a step are neither passed on nor counted as filtered, late, skipped or failed."""
    for step, counted in counts.items():
        if not counted.is_balanced:
            msg = "rows came into a step that are not accounted for"
            hint = "this is a defect of Millstream: the epoch is not published; report it with the plan of the job"
            raise MillstreamError(msg, code="RUN-030", step=step, found=counted, hint=hint)


def letter_limits(nodes: Iterable[StreamNode]) -> dict[str, LetterLimits]:
    """Per step whose dead letters are limited: the limits."""
    limits = {}
    for node in nodes:
        if isinstance(node.operation, Sink) and node.operation.letters is not None:
            (edge,) = (edge for edge in node.inputs if edge.output == DEAD)
            limits[str(edge.step)] = node.operation.letters
    return limits


def check_letters(limits: Mapping[str, LetterLimits], before: Counts, counts: Counts) -> None:
    """Fail the run once a step has put aside more of its rows, since the run began, than was agreed."""
    for step, limit in limits.items():
        so_far = total([before, counts]).get(step, StepCounts())
        put_aside = so_far.failed + so_far.refused
        if limit.max_rows is not None and put_aside > limit.max_rows:
            raise _too_many(step, f"{put_aside} rows", f"at most {limit.max_rows}")
        if limit.max_ratio is not None and so_far.rows_in >= _ENOUGH and put_aside > limit.max_ratio * so_far.rows_in:
            share = put_aside / so_far.rows_in
            raise _too_many(step, f"{share:.1%} of {so_far.rows_in} rows", f"at most {limit.max_ratio:.1%}")


def _too_many(step: str, found: str, known: str) -> StepFailed:
    msg = "more rows became dead letters than was agreed"
    hint = "look at the newest letters, mend the step or its input, or raise the limit of ms.dead_letter(...)"
    return StepFailed(msg, code="RUN-031", step=step, found=found, known=known, hint=hint)
