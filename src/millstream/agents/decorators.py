"""What marks the actions of an agent's class."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from millstream.agents.events.event import Event
from millstream.agents.functions import plain_function

_MARK = "_millstream_action"
F = TypeVar("F")
Trigger = str | type[Event]


class ActionMark(NamedTuple):
    """What the decorator of an action says."""

    listens_to: tuple[str, ...]
    name: str | None


def action(*trigger_conditions: Trigger, name: str | None = None) -> Callable[[F], F]:
    """Call the function for each event of these types; types are given as text or as classes of events.

    Raises:
        TypeError: no type is given, or something that is none.
    """
    listens_to = event_types(trigger_conditions, "@action")

    def mark(function: F) -> F:
        setattr(plain_function(function), _MARK, ActionMark(listens_to, name))
        return function

    return mark


def mark_of(declared: Any) -> ActionMark | None:
    """What is said of a function of a class, if it is an action."""
    function = declared.__func__ if isinstance(declared, staticmethod) else declared
    return getattr(function, _MARK, None)


def event_types(triggers: tuple[Trigger, ...], place: str) -> tuple[str, ...]:
    """The types of events that something listens to.

    Raises:
        TypeError: there is none, or something that is none.
    """
    if not triggers:
        msg = f"{place} listens to nothing; name the types of its events"
        raise TypeError(msg)
    return tuple(_event_type(each, place) for each in triggers)


def _event_type(trigger: Trigger, place: str) -> str:
    named = (
        getattr(trigger, "EVENT_TYPE", None) if isinstance(trigger, type) and issubclass(trigger, Event) else trigger
    )
    if not isinstance(named, str) or not named:
        msg = f"{place} listens to {trigger!r}; a trigger is the type of an event, or a class of events with EVENT_TYPE"
        raise TypeError(msg)
    if not named.replace("_", "").replace("-", "").replace(".", "").isalnum():
        msg = f"{place} listens to {named!r}; a type has letters, digits, dots, hyphens and underscores"
        raise TypeError(msg)
    return named
