"""Windows of a job file: the window, its trigger and its evictor, read as the values that the API takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millstream.api.jobfile.forms import mapping, refuse_unknown, wrong_form
from millstream.api.jobfile.written_step import WrittenStep, refuse_together
from millstream.api.streams.keyed import KeyedStream
from millstream.api.streams.windowed import WindowedStream
from millstream.api.values import evictor as evictors
from millstream.api.values import trigger as triggers
from millstream.api.values import windows as window_kinds
from millstream.graph.function import function_ref
from millstream.graph.windows.evictor import EvictorSpec
from millstream.graph.windows.trigger import TriggerSpec
from millstream.graph.windows.window import WindowSpec

OPTIONS = ("window", "allowed_lateness", "trigger", "accumulation", "evictor")
_WINDOWS: dict[str, tuple[Callable[..., WindowSpec], tuple[str, ...]]] = {
    "tumbling": (window_kinds.tumbling, ("offset", "time", "time_zone")),
    "sliding": (window_kinds.sliding, ("slide", "offset", "time", "time_zone")),
    "cumulative": (window_kinds.cumulative, ("step", "offset", "time")),
    "session": (window_kinds.session, ("time",)),
    "count": (window_kinds.count_window, ("slide",)),
}


def windowed(keyed: KeyedStream, step: WrittenStep) -> WindowedStream:
    """`window:` with the options beside it."""
    given = step.given("allowed_lateness", "accumulation")
    if "trigger" in step.options:
        given["trigger"] = _trigger(step.options["trigger"])
    if "evictor" in step.options:
        given["evictor"] = _evictor(step.options["evictor"])
    return keyed.window(window(step), **given)


def refuse_without_window(step: WrittenStep) -> None:
    """What only means something with a window."""
    refuse_together(step, (*OPTIONS[1:], "pane"), "without window:")


def window(step: WrittenStep) -> WindowSpec:
    """`{tumbling: 1m}`, `{sliding: 1m, slide: 20s}`, `{cumulative: 1h, step: 9m}`, `{session: 30s}`, `{count: 9}` or `global`."""
    if step.options["window"] == "global":
        return window_kinds.global_window()
    written = mapping(step.options["window"], "window:", "{tumbling: 1m}, or global")
    kind, value, given = _one_of(written, _WINDOWS, "window:")
    build, known = _WINDOWS[kind]
    refuse_unknown(given, known, f"{kind} window")
    if kind == "sliding" and "slide" not in given:
        raise wrong_form(written, "window:", "{sliding: size, slide: how often a window starts}")
    if kind == "cumulative" and "step" not in given:
        raise wrong_form(written, "window:", "{cumulative: size, step: how often a window ends}")
    return build(value, **given)


def _trigger(written: Any) -> TriggerSpec:
    """`event_time`, `{count: 100}`, `{every: 10s}`, `{purging: {count: 100}}`, `{event_time: {early: …, late: …}}`."""
    if written == "event_time":
        return triggers.event_time()
    if written == "processing_time":
        return triggers.processing_time()
    kind, value, given = _one_of(mapping(written, "trigger:", _TRIGGER_FORMS), _TRIGGERS, "trigger:")
    refuse_unknown(given, ("time",) if kind == "every" else (), f"{kind} trigger")
    return _TRIGGERS[kind](value, given)


def _phased(value: Any, _: dict[str, Any]) -> TriggerSpec:
    phases = mapping(value, "event_time:", "{early: trigger, late: trigger}")
    refuse_unknown(phases, ("early", "late"), "event_time trigger")
    made = triggers.event_time()
    made = made.early(_trigger(phases["early"])) if "early" in phases else made
    return made.late(_trigger(phases["late"])) if "late" in phases else made


_TRIGGER_FORMS = "event_time, processing_time, {count: 100}, {every: 10s}, {purging: trigger}, {custom: 'module:Class'}"
_TRIGGERS: dict[str, Callable[[Any, dict[str, Any]], TriggerSpec]] = {
    "event_time": _phased,
    "count": lambda value, _: triggers.count(value),
    "every": lambda value, given: triggers.every(value, **given),
    "purging": lambda value, _: triggers.purging(_trigger(value)),
    "custom": lambda value, _: TriggerSpec(kind="custom", function=function_ref(str(value))),
}


def _evictor(written: Any) -> EvictorSpec:
    """`{count: 100}`, `{time: 5s}`, `{delta: column, threshold: 5}` or `{custom: 'module:function'}`, with `when`."""
    known = "{count: 100}, {time: 5s}, {delta: column, threshold: 5}"
    kind, value, given = _one_of(mapping(written, "evictor:", known), _EVICTORS, "evictor:")
    refuse_unknown(given, ("threshold", "when") if kind == "delta" else ("when",), f"{kind} evictor")
    if kind == "delta" and "threshold" not in given:
        raise wrong_form(written, "evictor:", "{delta: column, threshold: 5}")
    return _EVICTORS[kind](value, **given)


_EVICTORS: dict[str, Callable[..., EvictorSpec]] = {
    "count": evictors.count,
    "time": evictors.time,
    "delta": evictors.delta,
    "custom": evictors.custom,
}


def _one_of(written: dict[str, Any], known: dict[str, Any], what: str) -> tuple[str, Any, dict[str, Any]]:
    """The one kind that a mapping names, its value, and the other keys."""
    kinds = [kind for kind in written if kind in known]
    if len(kinds) != 1:
        raise wrong_form(written, what, f"exactly one of {', '.join(known)}")
    return kinds[0], written[kinds[0]], {key: value for key, value in written.items() if key != kinds[0]}
