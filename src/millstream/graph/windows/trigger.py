"""Triggers as values: when a window gives its result. How they are evaluated stands in the runtime."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from millstream.errors import InvalidStep
from millstream.graph.function import FunctionRef, function_ref
from millstream.graph.state import StateDescriptor
from millstream.graph.windows.window import WindowTime, duration_text

TriggerKind = Literal["event_time", "processing_time", "count", "every", "purging", "custom"]
KINDS: tuple[TriggerKind, ...] = ("event_time", "processing_time", "count", "every", "purging", "custom")
_PHASES = ("count", "every", "purging", "custom")
"""What may fire before the end of a window, or after it."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TriggerSpec:
    """When a window fires. `early` and `late` refine a trigger that fires at the end of the window."""

    kind: TriggerKind
    rows: int = 0
    interval: int = 0
    time: WindowTime = "processing"
    inner: TriggerSpec | None = None
    early_trigger: TriggerSpec | None = None
    late_trigger: TriggerSpec | None = None
    function: FunctionRef | None = None
    states: tuple[StateDescriptor, ...] = dataclasses.field(init=False, default=())
    """The states that a trigger of the user declares; each window has its own. Their order is that of the class as it was
    written, which a class that was sent to another process need not have."""

    def __post_init__(self) -> None:
        _require(self.kind in KINDS, "unknown kind of trigger", repr(self.kind), "use one of ms.trigger")
        if self.kind == "count":
            is_number = type(self.rows) is int and self.rows > 0
            _require(
                is_number, "a count trigger needs a number of rows above zero", repr(self.rows), "as in count(100)"
            )
        if self.kind == "every":
            is_known = self.interval > 0 and self.time in {"event", "processing"}
            rhythm = f"{self.interval} ms of {self.time!r} time"
            _require(
                is_known, "firings repeat in an interval of event or processing time", rhythm, "as in every('10s')"
            )
        if self.kind == "purging":
            is_plain = self.inner is not None and self.inner.kind != "purging"
            _require(
                is_plain, "purging takes a trigger that does not purge", repr(self.inner), "as in purging(count(10))"
            )
        if self.kind == "custom":
            object.__setattr__(self, "states", _declared(self.function))
        self._check_phases()

    def _check_phases(self) -> None:
        for phase in (self.early_trigger, self.late_trigger):
            if phase is None:
                continue
            msg = "only a trigger at the end of event time has early and late firings"
            _require(self.kind == "event_time", msg, self.kind, "write ms.trigger.event_time().early(...)")
            msg = "early and late firings come by count, by time or by a trigger of your own"
            is_usable = phase.kind in _PHASES and not phase.is_ending
            _require(is_usable, msg, phase.describe(), "use ms.trigger.count(n) or ms.trigger.every('10s')")

    @property
    def is_ending(self) -> bool:
        """Whether it stands for the end of a window."""
        return self.kind in {"event_time", "processing_time"} or (self.inner is not None and self.inner.is_ending)

    def early(self, trigger: TriggerSpec) -> TriggerSpec:
        """Fire also before the end of the window, when another trigger says so."""
        return dataclasses.replace(self, early_trigger=checked_trigger(trigger))

    def late(self, trigger: TriggerSpec) -> TriggerSpec:
        """After the end of the window, fire when another trigger says so, and not for every late row."""
        return dataclasses.replace(self, late_trigger=checked_trigger(trigger))

    @property
    def parts(self) -> Iterator[TriggerSpec]:
        """This trigger and those inside it."""
        yield self
        for part in (self.inner, self.early_trigger, self.late_trigger):
            if part is not None:
                yield from part.parts

    @property
    def functions(self) -> tuple[FunctionRef, ...]:
        """User code in it."""
        return tuple(part.function for part in self.parts if part.function is not None)

    @property
    def needs_event_time(self) -> bool:
        """Whether it fires at instants of event time before the end of the window."""
        return any(part.kind == "every" and part.time == "event" for part in self.parts)

    @property
    def unmerged(self) -> str | None:
        """The name of a trigger that does not say what becomes of it when windows become one."""
        lost = [ref.name for ref in self.functions if not ref.target.merges]
        return lost[0].split("@", maxsplit=1)[0] if lost else None

    @property
    def type_text(self) -> str:
        """What its state depends on: kinds without numbers, and the states of triggers of the user."""
        inside = [("", self.inner), ("early ", self.early_trigger), ("late ", self.late_trigger)]
        parts = [f"{name}{part.type_text}" for name, part in inside if part is not None]
        parts += [f"{state.name} {state.kind} {state.type_text} v{state.version}" for state in self.states]
        clock = f" {self.time}" if self.kind == "every" else ""
        return f"{self.kind}{clock}" + (f"({', '.join(parts)})" if parts else "")

    def describe(self) -> str:
        """The trigger in a few words."""
        match self.kind:
            case "count":
                text = f"every {self.rows} rows"
            case "every":
                text = f"every {duration_text(self.interval)} of {self.time} time"
            case "purging":
                assert self.inner is not None, "purging has an inner trigger"
                text = f"{self.inner.describe()}, purging"
            case "custom":
                assert self.function is not None, "a trigger of the user has a function"
                text = self.function.name.split("@", maxsplit=1)[0]
            case _:
                text = f"end of {self.kind.removesuffix('_time')} time"
        early, late = self.early_trigger, self.late_trigger
        text += "" if early is None else f", early {early.describe()}"
        return text + ("" if late is None else f", late {late.describe()}")


def checked_trigger(trigger: Any) -> TriggerSpec:
    """A trigger as the plan holds it; a subclass of `ms.Trigger`, or an instance, becomes one."""
    if isinstance(trigger, TriggerSpec):
        return trigger
    target = trigger() if isinstance(trigger, type) else trigger
    hint = "pass ms.trigger.count(100), or subclass ms.Trigger"
    _require(hasattr(target, "on_row"), "not a trigger", repr(trigger), hint)
    return TriggerSpec(kind="custom", function=function_ref(target))


def trigger_to_json(trigger: TriggerSpec) -> dict[str, Any]:
    """A trigger as a JSON value, without what is as by default."""
    value: dict[str, Any] = {}
    for field in dataclasses.fields(trigger):
        content = getattr(trigger, field.name)
        if field.init and content != field.default:
            is_trigger = isinstance(content, TriggerSpec)
            value[field.name] = trigger_to_json(content) if is_trigger else getattr(content, "name", content)
    return value


def trigger_from_json(value: Any, *, step: str | None = None) -> TriggerSpec:
    """Read a trigger back; unknown fields and ill-typed values are refused."""
    known = {field.name for field in dataclasses.fields(TriggerSpec) if field.init}
    if not isinstance(value, Mapping) or "kind" not in value or not known.issuperset(value):
        raise _unreadable(value, sorted(known), step)
    fields = {name: content for name, content in value.items() if content is not None}
    if any(type(fields.get(name, 0)) is not int for name in ("rows", "interval")):
        raise _unreadable(value, sorted(known), step)
    for name in ("inner", "early_trigger", "late_trigger"):
        if name in fields:
            fields[name] = trigger_from_json(fields[name], step=step)
    if "function" in fields:
        fields["function"] = function_ref(str(fields["function"]), step=step)
    return TriggerSpec(**fields)


def _unreadable(value: Any, known: list[str], step: str | None) -> InvalidStep:
    msg = "not the JSON form of a trigger"
    return InvalidStep(msg, code="STEP-125", step=step, found=repr(value)[:200], known=known, hint="use known fields")


def _require(holds: bool, message: str, given: str, hint: str) -> None:  # noqa: FBT001
    if not holds:
        raise InvalidStep(message, code="STEP-124", found=given, hint=hint)


def _declared(function: FunctionRef | None) -> tuple[StateDescriptor, ...]:
    """The states of a trigger of the user."""
    if function is None or not hasattr(function.target, "on_row"):
        msg = "not a trigger"
        raise InvalidStep(msg, code="STEP-124", found=repr(function), hint="subclass ms.Trigger")
    states: tuple[StateDescriptor, ...] = tuple(function.target.state_descriptors())
    expiring = [state.name for state in states if state.ttl is not None]
    msg = "the state of a trigger is gone with its window and has no time to live"
    _require(not expiring, msg, ", ".join(expiring), "remove ttl=")
    return states
