"""Patterns of job files: a list of stages, each with its contiguity, its conditions and how often it comes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millstream.api.jobfile.forms import mapping, refuse_unknown, wrong_form
from millstream.api.jobfile.written_step import WrittenStep
from millstream.api.streams.matched import PatternStream
from millstream.api.streams.stream import DataStream
from millstream.api.values.pattern import Pattern, begin
from millstream.graph.function import function_ref

OPTIONS = (
    "within", "after_match", "measures", "call", "schema", "timed_out", "timed_out_schema", "order_by",
)  # fmt: skip
"""What a pattern step takes beside the options of every keyed step."""
_LINKS = ("begin", "next", "followed_by", "followed_by_any", "not_next", "not_followed_by")
_PLAIN_SKIPS = ("no_skip", "skip_to_next", "skip_past_last_event")
_STAGE_SKIPS = ("skip_to_first", "skip_to_last")
_CLOSINGS = ("measures", "call")


def pattern(step: WrittenStep) -> Pattern:
    """The pattern of a step: its stages, `within:` and `after_match:`."""
    built = _sequence(step.value)
    if "within" in step.options:
        built = built.within(step.options["within"])
    return _after_match(built, step.options["after_match"]) if "after_match" in step.options else built


def closed(matches: PatternStream, step: WrittenStep) -> DataStream:
    """What becomes of a match: `measures:`, or `call:` for a function of the match."""
    closings = [name for name in _CLOSINGS if name in step.options]
    if len(closings) != 1:
        raise wrong_form(closings, "a pattern step", f"exactly one of {', '.join(_CLOSINGS)}")
    named = step.given("id", "uid")
    if closings[0] == "measures":
        measures = mapping(step.options["measures"], "measures:", "{name: expression}")
        timed_out = step.options.get("timed_out")
        if timed_out is not None:
            mapping(timed_out, "timed_out:", "{name: expression}")
        return matches.measures(**named, timed_out=timed_out, **measures)
    return matches.process(step.options["call"], **named, **step.given("schema", "timed_out", "timed_out_schema"))


def order_by(step: WrittenStep) -> Any:
    """`order_by: event_id`, or a list of columns."""
    return step.options.get("order_by", ())


def _sequence(stages: Any) -> Pattern:
    if not isinstance(stages, list) or not stages:
        raise wrong_form(stages, "pattern:", "a list of stages")
    built: Pattern | None = None
    for stage in stages:
        built = _stage(mapping(stage, "a stage", "{next: name, where: expression}"), built)
    assert built is not None, "there is a first stage"
    return built


def _stage(written: dict[str, Any], before: Pattern | None) -> Pattern:
    links = [link for link in written if link in _LINKS]
    if len(links) != 1 or (links[0] == "begin") != (before is None):
        raise wrong_form(written, "a stage", "begin: for the first stage, for others one of " + ", ".join(_LINKS[1:]))
    refuse_unknown(written, (links[0], *_READ), "a stage")
    name: str | Pattern = _sequence(written[links[0]]) if isinstance(written[links[0]], list) else written[links[0]]
    built = begin(name) if before is None else getattr(before, links[0])(name)
    for key, read in _READ.items():
        if key in written:
            built = read(built, written[key])
    return built


def _where(built: Pattern, value: Any) -> Pattern:
    """One condition, or a list of them that must all be true."""
    for each in value if isinstance(value, list) else [value]:
        built = built.where(_condition(each))
    return built


def _or_where(built: Pattern, value: Any) -> Pattern:
    for each in value if isinstance(value, list) else [value]:
        built = built.or_where(_condition(each))
    return built


def _times(built: Pattern, value: Any) -> Pattern:
    counts, within = _repeated(value, "times")
    counts = counts if isinstance(counts, list) else [counts]
    if not 1 <= len(counts) <= 2:
        raise wrong_form(value, "times:", "2, [2, 4], or {times: 2, within: 10s}")
    return built.times(*counts, within=within)


def _times_or_more(built: Pattern, value: Any) -> Pattern:
    least, within = _repeated(value, "times_or_more")
    return built.times_or_more(least, within=within)


def _one_or_more(built: Pattern, value: Any) -> Pattern:
    """`true`, or `{within: 10s}`."""
    if isinstance(value, dict):
        return built.one_or_more(within=_repeated({"one_or_more": True, **value}, "one_or_more")[1])
    return _flag("one_or_more")(built, value)


def _repeated(value: Any, name: str) -> tuple[Any, Any]:
    """A count, or a mapping of it and the time between two repetitions."""
    if not isinstance(value, dict):
        return value, None
    refuse_unknown(value, (name, "within"), f"{name}:")
    if name not in value:
        raise wrong_form(value, f"{name}:", f"{{{name}: 2, within: 10s}}")
    return value[name], value.get("within")


def _condition(value: Any) -> Any:
    if isinstance(value, dict) and value.keys() == {"function"}:
        return function_ref(str(value["function"])).target
    if not isinstance(value, str):
        raise wrong_form(value, "a condition", "an expression, or {function: 'module:function'}")
    return value


def _flag(name: str) -> Callable[[Pattern, Any], Pattern]:
    def read(built: Pattern, value: Any) -> Pattern:
        if not isinstance(value, bool):
            raise wrong_form(value, f"{name}:", "true or false")
        changed: Pattern = getattr(built, name)() if value else built
        return changed

    return read


_READ: dict[str, Callable[[Pattern, Any], Pattern]] = {
    "where": _where,
    "or_where": _or_where,
    "times": _times,
    "times_or_more": _times_or_more,
    "one_or_more": _one_or_more,
    **{name: _flag(name) for name in ("optional", "greedy", "consecutive", "allow_combinations")},
    "until": lambda built, value: built.until(_condition(value)),
    "within": lambda built, value: built.within(value, "previous_to_current"),
}
"""In the order they are applied: how often a stage comes before what only a repeated stage may have."""


def _after_match(built: Pattern, value: Any) -> Pattern:
    if isinstance(value, str) and value in _PLAIN_SKIPS:
        skipping: Pattern = getattr(built, value)()
        return skipping
    if isinstance(value, dict) and len(value) == 1 and next(iter(value)) in _STAGE_SKIPS:
        ((how, stage),) = value.items()
        to_stage: Pattern = getattr(built, how)(stage)
        return to_stage
    known = ", ".join([*_PLAIN_SKIPS, *(f"{{{how}: stage}}" for how in _STAGE_SKIPS)])
    raise wrong_form(value, "after_match:", known)
