"""The text of a pattern that comes with a broadcast stream: YAML or JSON, in the form that job files use, and without code."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from millstream.api.jobfile import patterns
from millstream.api.jobfile.document import parsed_document
from millstream.api.jobfile.forms import mapping, refuse_unknown
from millstream.api.jobfile.written_step import WrittenStep
from millstream.errors import InvalidStep
from millstream.graph.operations.rules import OnUpdate
from millstream.graph.patterns.match_expression import Measures, measures_of
from millstream.graph.patterns.match_source import check_conditions
from millstream.graph.patterns.pattern import PatternSpec
from millstream.graph.patterns.stage import Stage
from millstream.model.schema import Schema

_KEYS = ("pattern", "within", "after_match", "measures", "timed_out")
MOST_ROWS = 500
"""Rows that a pattern may ask for one by one: each has a state of its own."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A pattern and what its matches give, checked."""

    pattern: PatternSpec
    measures: Measures
    timed_out: Measures


def read_rule(text: str, rows: Schema, keys: Schema, *, step: str, on_update: OnUpdate) -> Rule:
    """Read a definition and check it against the rows it is to be looked for in.

    Raises:
        MillstreamError: it is no such document, holds code, or does not fit the rows.
    """
    content = parsed_document(text, "the definition").content
    refuse_unknown(content, _KEYS, "a pattern")
    _refuse_code(content.get("pattern"), step)
    written = WrittenStep(kind="pattern", value=content.get("pattern"), options=content)
    spec = patterns.pattern(written).spec
    _check_size(spec, step)
    if on_update == "keep" and spec.within is None:
        msg = "partial matches of a pattern that is replaced run out, which needs a time"
        raise InvalidStep(msg, code="STEP-186", step=step, hint="add within:, or use on_update='restart'")
    check_conditions(spec, rows, step=step)
    measures, timed_out = (
        measures_of(
            mapping(content.get(name, {}), f"{name}:", "{name: expression}").items(), spec, rows, keys, step=step
        )
        for name in ("measures", "timed_out")
    )
    if not measures:
        msg = "a pattern that is brought by a stream gives measures"
        raise InvalidStep(msg, code="STEP-184", step=step, known=_KEYS, hint="add measures: {name: expression}")
    return Rule(pattern=spec, measures=measures, timed_out=timed_out)


def _refuse_code(stages: Any, step: str) -> None:
    """A row of a stream may say what to look for, not what to run."""
    for name, value in _pairs(stages):
        if name == "function":
            msg = "a pattern that is brought by a stream cannot name code"
            raise InvalidStep(msg, code="STEP-185", step=step, found=repr(value), hint="write an expression")


def _pairs(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        yield from value.items()
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _pairs(inner)


def _check_size(pattern: PatternSpec, step: str) -> None:
    asked = sum(map(_rows, pattern.stages))
    if asked > MOST_ROWS:
        msg = "a pattern asks for too many rows one by one"
        raise InvalidStep(
            msg, code="STEP-187", step=step, found=asked, known=f"at most {MOST_ROWS}", hint="ask for fewer"
        )


def _rows(stage: Stage) -> int:
    each = sum(map(_rows, stage.group)) if stage.group else 1
    return each * (stage.least + 1 if stage.most is None else stage.most)
