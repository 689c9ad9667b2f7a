"""A step that keeps the same share of the rows of each key (`sample`)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from millstream.errors import InvalidStep
from millstream.graph.operation import Operation, Outputs, PlacedStep, ResolvedStep
from millstream.graph.step import MAIN
from millstream.model.schema import Schema

MILLION = 1_000_000


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sample(Operation):
    """A share of the rows of each key, spread evenly; the first row of a key is always among them."""

    kind = "sample"
    runs_as = "keyed"
    rate: float
    """The share, exact to a millionth."""

    def __post_init__(self) -> None:
        is_share = type(self.rate) in {int, float} and 0 < self.rate <= 1
        if not is_share or self.per_million < 1:
            msg = "rate is not a share of the rows"
            known = "a number above 0 and up to 1, no smaller than a millionth"
            raise InvalidStep(msg, code="STEP-270", found=repr(self.rate), known=known, hint="for a tenth write 0.1")

    @property
    def per_million(self) -> int:
        """How many of a million rows are kept: whole numbers, so that no sum of fractions drifts."""
        return round(self.rate * MILLION)

    def gives(self, step: PlacedStep, schemas: Sequence[Schema]) -> Outputs:
        """The columns that come in."""
        del step
        return (), {MAIN: schemas[0]}

    def describe(self) -> str:
        """Which share stays."""
        return f"{self.rate:g} of the rows of each key"

    def stored(self, node: ResolvedStep) -> dict[str, Any]:
        """Nothing depends on the rate: what is kept of a key is how many rows it had."""
        del node
        return {}
