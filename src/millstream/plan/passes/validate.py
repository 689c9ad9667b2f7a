"""Compare what connectors can do with what the job promises; report every problem at once."""

from __future__ import annotations

from millstream.errors import InvalidPlan
from millstream.graph.model import StreamModel
from millstream.model.guarantee import SINKS_FOR, SOURCES_FOR


def validate(model: StreamModel) -> StreamModel:
    """The model itself, when every source and sink serves its guarantee."""
    guarantee = model.requirements.guarantee
    needed: dict[str, frozenset[str]] = {
        "source": frozenset(SOURCES_FOR[guarantee]),
        "sink": frozenset(SINKS_FOR[guarantee]),
    }
    problems = [
        f"{part.role} {part.step!r} ({part.name}) is {part.capability}, needed is one of {', '.join(sorted(needed[part.role]))}"
        for part in model.components
        if part.role in needed and part.capability not in needed[part.role]
    ]
    if problems:
        msg = f"guarantee {guarantee.value!r} cannot be kept: " + "; ".join(problems)
        raise InvalidPlan(
            msg,
            code="PLAN-040",
            hint="use other connectors, or name a weaker guarantee: Job(..., guarantee='at_least_once')",
        )
    return model
