"""Outputs of steps: what several operations have in common."""

from __future__ import annotations

from typing import Literal

from millstream.errors import InvalidStep
from millstream.graph.operation import PlacedStep
from millstream.graph.step import DEAD
from millstream.model.schema import Field, Schema, schema_of

OnError = Literal["fail", "skip", "dead_letter"]
DEAD_SCHEMA = schema_of("step string, error string, record string, at timestamp, origin string, raw binary")
"""Dead letters: the step that refused the record, why, the record as JSON text, the epoch's time; where the record stands
outside, if a source knows it, and its bytes, if it came as such."""


def with_dead(outputs: dict[str, Schema], on_error: OnError) -> dict[str, Schema]:
    """Outputs, and that of dead letters where bad records become such."""
    return {**outputs, DEAD: DEAD_SCHEMA} if on_error == "dead_letter" else outputs


def column_of(name: str, schema: Schema, step: str) -> Field:
    """A column, or an error that lists the known ones."""
    if name not in schema:
        msg = f"unknown column {name!r}"
        raise InvalidStep(msg, code="STEP-042", step=step, known=schema.names, hint="use one of the known columns")
    return schema[name]


def key_fields(step: PlacedStep, schema: Schema) -> tuple[Field, ...]:
    """The key columns of a step's first input."""
    return tuple(schema[key] for key in step.inputs[0].keys)
