"""What servers ask nodes about stored state and dead letters: by numbers and names, never by paths."""

from __future__ import annotations

from typing import Literal

import msgspec

from millstream.contract.stored_questions import LetterAct, LetterFilter
from millstream.control.stored.places import StateOf


class StateAsked(msgspec.Struct, frozen=True, kw_only=True, tag_field="about", tag="state"):
    """Something about stored state."""

    what: Literal["steps", "entries", "difference"]
    of: StateOf
    other: StateOf = StateOf()
    """What it is compared with."""
    counted: bool = False
    step: str | None = None
    state: str | None = None
    key: list[str] | None = None
    prefix: str = ""
    limit: int = 100
    group: int = 0
    passed: int = 0


class LettersAsked(msgspec.Struct, frozen=True, kw_only=True, tag_field="about", tag="letters"):
    """Something about the dead letters of a run and of those of its job before it."""

    run: str
    act: LetterAct
    chosen: LetterFilter = LetterFilter()
    limit: int = 100
    passed: int = 0
    payload: int = 4096
    dry: bool = False


ChannelQuestion = StateAsked | LettersAsked
