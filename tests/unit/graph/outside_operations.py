"""Operations as another package would bring them: nothing below knows of them."""

import dataclasses
from fractions import Fraction

from millstream.errors import InvalidStep
from millstream.graph.expressions.expression import parse_predicate
from millstream.graph.function import FunctionRef
from millstream.graph.operation import Operation
from millstream.graph.step import LATE, MAIN
from millstream.model.schema import Schema


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    column: str
    least: int = 0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sample(Operation):
    """Keeps a share of the rows of each key; every kind of field that JSON has a general form for, and one it has none for."""

    runs_as = "keyed"
    operator = "tests.unit.graph.outside_operations:SampleOperator"
    share: Fraction
    where: str
    late: Schema
    pick: FunctionRef | None = None
    rules: tuple[Rule, ...] = ()
    columns: tuple[tuple[str, str], ...] = ()
    label: str = ""
    """Not stored: checkpoints do not depend on it."""

    def gives(self, step, schemas):
        if "at" not in schemas[0]:
            msg = "a sample needs a column at"
            raise InvalidStep(msg, code="SAMPLE-001", step=step.id)
        return (("where", parse_predicate(self.where, schemas[0], step=step.id)),), {MAIN: schemas[0], LATE: self.late}

    def describe(self):
        return f"{self.share} of the rows where {self.where}"

    def facts(self):
        yield "label", self.label

    def stored(self, node):
        return {"share": str(self.share), "columns": sorted(node.expressions[0][1].columns)}

    def json_fields(self):
        return {"share": str(self.share)}

    @classmethod
    def fields_from_json(cls, fields, step):
        return {**fields, "share": Fraction(fields["share"])}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Named(Operation):
    """Bears the name of an entry point."""

    kind = "named"
    runs_as = "batch"

    def gives(self, step, schemas):
        return (), {MAIN: schemas[0]}

    def describe(self):
        return "hands rows on"


class Unfinished(Operation):
    """Says nothing of what it gives."""

    runs_as = "batch"


def pick(row):
    return row
