"""Compare what a job's connectors and functions can do with what the job promises; report every problem at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from millstream.errors import InvalidPlan
from millstream.graph.model import Component, StreamModel
from millstream.graph.operations.endpoints import Sink, Source
from millstream.graph.step import partition_text
from millstream.model.connector import replaces, source_declaration
from millstream.model.guarantee import SINKS_FOR, SOURCES_FOR, Guarantee
from millstream.model.ids import StepId
from millstream.plan.deployment import Deployment

_HINTS = {
    "PLAN-012": "start with job.source('name', ms.files('in/')) and end with .sink('name', ms.print())",
    "PLAN-040": "use other connectors, or name a weaker guarantee: Job(..., guarantee='at_least_once')",
    "PLAN-041": "move the step behind the last key_by or rebalance, or name a weaker guarantee",
    "PLAN-044": "use sources that end, or write='append' or 'upsert'",
    "PLAN-045": "use on_stop='cancel' or 'suspend': the same run goes on at the next start",
    "PLAN-042": "leave the checkpoint out, or name a stronger guarantee: Job(..., guarantee='at_least_once')",
}


class _Problem(NamedTuple):
    code: str
    text: str


def validate(model: StreamModel, deployment: Deployment) -> StreamModel:
    """The model itself, when every source, sink and function serves its guarantee where it is deployed.

    Raises:
        InvalidPlan: names every problem; its code is that of the first, its hint says how to mend each kind.
    """
    guarantee = model.requirements.guarantee
    problems = [*_missing(model), *_incapable(model), *_nondeterministic(model)]
    if guarantee is Guarantee.BEST_EFFORT and deployment.checkpoint is not None:
        text = f"best_effort keeps no checkpoint, and {deployment.checkpoint!r} is given as one"
        problems.append(_Problem("PLAN-042", text))
    problems += _replacing(model, deployment)
    if problems:
        codes = dict.fromkeys(problem.code for problem in problems)
        is_promised = bool({"PLAN-040", "PLAN-041"} & codes.keys())
        msg = f"guarantee {guarantee.value!r} cannot be kept: " if is_promised else f"job {model.name!r} cannot run: "
        msg += "; ".join(problem.text for problem in problems)
        raise InvalidPlan(msg, code=next(iter(codes)), hint="; ".join(_HINTS[code] for code in codes))
    return model


def _missing(model: StreamModel) -> Iterator[_Problem]:
    roles = {part.role for part in model.components}
    for role, does in (("source", "reads"), ("sink", "writes")):
        if role not in roles:
            yield _Problem("PLAN-012", f"it {does} nothing: there is no {role}")


def _incapable(model: StreamModel) -> Iterator[_Problem]:
    guarantee = model.requirements.guarantee
    needed: dict[str, frozenset[str]] = {
        "source": frozenset(SOURCES_FOR[guarantee]),
        "sink": frozenset(SINKS_FOR[guarantee]),
    }
    for part in model.components:
        if part.role in needed and part.capability not in needed[part.role]:
            known = ", ".join(sorted(needed[part.role]))
            text = f"{part.role} {part.step!r} ({part.name}) is {part.capability}, needed is one of {known}"
            yield _Problem("PLAN-040", text)


def _replacing(model: StreamModel, deployment: Deployment) -> Iterator[_Problem]:
    """Sinks that show the result of a run at its end: there must be one, and it must be the whole."""
    sinks = [step.id for step in model.steps if isinstance(step.operation, Sink) and _replaces(step.operation)]
    endless = [step.id for step in model.steps if isinstance(step.operation, Source) and _is_endless(step.operation)]
    for sink in sinks:
        if endless:
            yield _Problem(
                "PLAN-044",
                f"sink {sink!r} replaces its result at the end of a run, and source {endless[0]!r} has no end",
            )
        elif (deployment.on_stop or model.requirements.on_stop) == "drain":
            text = f"sink {sink!r} shows whole results, and a run that is drained by a signal would leave half of one"
            yield _Problem("PLAN-045", text)


def _replaces(sink: Sink) -> bool:
    return replaces(sink.connector.options)


def _is_endless(source: Source) -> bool:
    return not source_declaration(source.connector).is_bounded(source.connector.options)


def _nondeterministic(model: StreamModel) -> Iterator[_Problem]:
    """Functions whose rows may reach another subtask when they are made again; expressions are always deterministic."""
    if model.requirements.guarantee is not Guarantee.EXACTLY_ONCE:
        return
    exchanges = _exchanges_behind(model)
    for part in model.components:
        if not part.is_deterministic and part.step in exchanges:
            yield _Problem(
                "PLAN-041", f"{_function(part)} is not deterministic and stands before {exchanges[part.step]}"
            )


def _function(part: Component) -> str:
    return f"function {part.name.split('@', maxsplit=1)[0]} of step {part.step!r} at {part.location}"


def _exchanges_behind(model: StreamModel) -> dict[StepId, str]:
    """For each step with an exchange somewhere behind it: one such exchange, in words."""
    behind: dict[StepId, str] = {}
    for step in reversed(model.steps):
        for edge in step.inputs:
            if edge.partition != "forward":
                how = f"key_by({', '.join(edge.keys)})" if edge.keys else partition_text(edge.partition, ())
                behind.setdefault(edge.step, f"the {how} of step {step.id!r}")
            elif step.id in behind:
                behind.setdefault(edge.step, behind[step.id])
    return behind
