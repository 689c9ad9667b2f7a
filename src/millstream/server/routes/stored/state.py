"""What steps have stored, read by a node that sees it: of a run at one of its epochs, or of a savepoint. Nothing is changed."""

from __future__ import annotations

import re
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Path, Query
from pydantic import BaseModel

from millstream.control.dispatcher.stopping import run_of
from millstream.control.stored.places import StateOf, savepoint_of
from millstream.control.stored.questions import StateAsked
from millstream.control.texts import storable
from millstream.errors import InvalidStep
from millstream.server.asking import Asking, Asks, guarded
from millstream.server.paging import Cursor, PageSize, sealed, unsealed

router = APIRouter(tags=["state"])
_SAVEPOINT = re.compile(r"[0-9]{1,18}")
_RUN = re.compile(r"([0-9a-f]{1,64})(?:@([0-9]{1,18}))?")
_SHOWN = 200
Where = Annotated[
    str, Path(max_length=100, description="The number of a savepoint, or RUN@EPOCH; RUN alone is its newest epoch.")
]
Step = Annotated[str, Path(max_length=200, description="The id or uid of a step that keeps state.")]
Key = Annotated[list[str] | None, Query(description="One value for each key column: what is stored for that key.")]
KeyJson = Annotated[
    str | None,
    Query(max_length=20_000, description='The same as a JSON array: `["a\\u0000b"]` has no form in an address.'),
]
Prefix = Annotated[str, Query(max_length=1000, description="Keys whose readable form begins like that.")]
Side = Annotated[str, Query(max_length=100, description="As in the path of a reading.")]


class StateAbout(BaseModel):
    """Whose state was read."""

    job: str
    epoch: int
    engine: str


class StateStep(BaseModel):
    """A step that keeps state."""

    step: str
    operation: str
    key: str
    state: str
    keys: int | None


class StateSteps(StateAbout):
    """All of them; keys are counted where that starts no Spark, or when asked."""

    steps: list[StateStep]


class StateEntry(BaseModel):
    """What is stored for a key; `cut` names values that are longer than 64 KiB, with their bytes."""

    key: dict[str, Any]
    label: str
    values: dict[str, Any]
    cut: dict[str, int]
    timers: Any = None


class StateEntries(StateAbout):
    """Entries in the order of key groups; `next` is the cursor of the next page."""

    step: str
    operation: str
    states: list[str]
    items: list[StateEntry]
    next: str | None


class SidedEntry(StateEntry):
    """An entry of one side."""

    side: str


class DifferingStep(BaseModel):
    """How many keys of a step are in one alone, or other there."""

    step: str
    a: int
    b: int


class StateDifference(BaseModel):
    """What differs between two readings: counts of each step, or the keys of one."""

    a: StateAbout
    b: StateAbout
    steps: list[DifferingStep] = []
    items: list[SidedEntry] = []
    more: int = 0
    """Entries that differ and are not shown."""


@router.get("/state/diff", **guarded("editor"), summary="Compare stored state")
def diff_state(
    a: Side,
    b: Side,
    asking: Asks,
    *,
    step: Annotated[str | None, Query(max_length=200, description="Show its keys that differ.")] = None,
    limit: PageSize = 100,
) -> StateDifference:
    """Of two epochs or savepoints: how many keys of each step differ, or which of one step."""
    of, other = _named(asking, a), _named(asking, b)
    told = _read(asking, f"{a} {b}", StateAsked(what="difference", of=of, other=other, step=step, limit=limit))
    items = [SidedEntry(side=each.pop("in"), **each) for each in told.get("entries", [])]
    steps = told.get("steps", [])
    return StateDifference(a=told["a"], b=told["b"], steps=steps, items=items, more=told.get("more", 0))


@router.get("/state/{where}", **guarded("editor"), summary="List the steps that keep state")
def list_state(
    where: Where,
    asking: Asks,
    *,
    count: Annotated[bool, Query(description="Count keys even where that starts Spark.")] = False,
) -> StateSteps:
    """What each step keeps, and how many keys there are."""
    return StateSteps(**_read(asking, where, StateAsked(what="steps", of=_named(asking, where), counted=count)))


@router.get("/state/{where}/{step}", **guarded("editor"), summary="Read the state of a step")
def read_state(
    where: Where,
    step: Step,
    asking: Asks,
    *,
    key: Key = None,
    key_json: KeyJson = None,
    prefix: Prefix = "",
    limit: PageSize = 100,
    cursor: Cursor = None,
) -> StateEntries:
    """For a key, for keys that begin like a text, or for all, page by page. Every reading is written into the audit."""
    wanted: dict[str, Any] = {"step": step, "key": _key(key, key_json), "prefix": prefix, "limit": limit}
    return _entries(asking, where, wanted, cursor)


@router.get("/state/{where}/{step}/{state:path}", **guarded("editor"), summary="Read one state of a step")
def read_one_state(
    where: Where,
    step: Step,
    state: Annotated[str, Path(max_length=200, description="One of the states that the step keeps.")],
    asking: Asks,
    *,
    key: Key = None,
    key_json: KeyJson = None,
    prefix: Prefix = "",
    limit: PageSize = 100,
    cursor: Cursor = None,
) -> StateEntries:
    """As for all states of the step."""
    wanted: dict[str, Any] = {
        "step": step,
        "state": state,
        "key": _key(key, key_json),
        "prefix": prefix,
        "limit": limit,
    }
    return _entries(asking, where, wanted, cursor)


def _key(values: list[str] | None, text: str | None) -> list[str] | None:
    if text is None:
        return values
    try:
        return msgspec.json.decode(text, type=list[str])
    except msgspec.MsgspecError as problem:
        msg = "the key is no JSON array of texts"
        raise InvalidStep(msg, code="REST-039", found=str(problem), hint='write it as ["first", "second"]') from None


def _entries(asking: Asking, where: str, wanted: dict[str, Any], cursor: str | None) -> StateEntries:
    of, scope = _named(asking, where), (wanted["key"], wanted["prefix"])
    if cursor is not None:
        # The pages are those of one epoch, also where the newest was meant.
        epoch, group, passed = unsealed(asking, cursor, scope)
        of, wanted = msgspec.structs.replace(of, epoch=epoch), {**wanted, "group": group, "passed": passed}
    told = _read(asking, where, StateAsked(what="entries", of=of, **wanted))
    after = told.pop("next")
    begin = None if after is None else [told["epoch"] if of.savepoint is None else None, *after]
    following = None if begin is None else sealed(asking, begin, scope)
    return StateEntries(items=told.pop("entries"), next=following, **told)


def _named(asking: Asking, where: str) -> StateOf:
    if _SAVEPOINT.fullmatch(where):
        with asking.reading() as act:
            return StateOf(savepoint=savepoint_of(act, int(where)).id)
    named = _RUN.fullmatch(where)
    if named is None:
        msg = "that names no stored state"
        known = "the number of a savepoint, RUN@EPOCH, RUN"
        raise InvalidStep(msg, code="REST-038", found=repr(where[:_SHOWN]), known=known, hint="name one of these")
    with asking.reading() as act:
        run = run_of(act, named[1]).execution_id
    return StateOf(run=run, epoch=None if named[2] is None else int(named[2]))


def _read(asking: Asking, target: str, asked: StateAsked) -> dict[str, Any]:
    """Written down before it is read: who was shown something must stand there, whatever comes between."""
    stored = asking.service.stored
    assert stored is not None, "these routes are there only where nodes can be asked"
    key = None if asked.key is None else [each[:_SHOWN] for each in asked.key[:20]]
    prefix = asked.prefix[:_SHOWN] or None
    said = {"what": asked.what, "step": asked.step, "state": asked.state, "prefix": prefix, "key": key}
    with asking.acting() as act:
        after = storable({name: value for name, value in said.items() if value is not None})
        asking.audit(act, "state.read", target, after=after)
    return stored.ask(asked)
