"""Carries pages of one layout over to another: slots by name, columns by name, content by the user's migration.

Only what changed is decoded: a slot that stays as it is moves as bytes. Whether a change is allowed at all is decided before.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pyarrow as pa

from millstream.errors import CheckpointRefused, StepFailed
from millstream.model.time import MIN_TIME
from millstream.state.layout import SlotLayout, StateLayout
from millstream.state.pages import NEVER, Due, EntryPage

Migrate = Callable[[Any, int], Any]
"""`migrate(content, from_version)`: takes plain values (dicts, lists, numbers), gives content of the current version."""
Evolve = Callable[[bytes, Due], tuple[bytes | None, Due]]
"""Takes a page and its due times; gives the page in the new layout (`None`: nothing is left) and its due times."""
_NIL, _EMPTY, _PAIR = b"\xc0", b"\x90", b"\x92"
"""In msgpack: nothing, an empty list, the head of a list of two."""
_NEVER = Due()
_ENTRY = msgspec.msgpack.Decoder(list[msgspec.Raw])
_PAGE = msgspec.msgpack.Decoder(EntryPage)
_ANY = msgspec.msgpack.Decoder()
_ENCODER = msgspec.msgpack.Encoder()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SlotCode:
    """What a layout does not say about a slot: the Python type of its content, and the user's migration."""

    type: Any
    migrate: Migrate | None = None


Slots = Mapping[str, SlotCode]


def evolution(stored: StateLayout, new: StateLayout, slots: Callable[[str], Slots], *, now: int) -> Evolve | None:
    """How to carry pages over; `None` when they stay as they are."""
    if (stored.form, stored.key_groups, stored.keys) != (new.form, new.key_groups, new.keys):
        msg = "the state of the step is kept in another form than the savepoint holds"
        raise CheckpointRefused(
            msg,
            code="SAVE-007",
            step=new.uid,
            found=f"{new.form} by ({new.keys}) in {new.key_groups} key groups",
            known=f"{stored.form} by ({stored.keys}) in {stored.key_groups} key groups",
            hint="undo the change, or give the step another uid to start without state",
        )
    if new.form == "columns":
        return None if stored.columns == new.columns else _column_evolution(stored, new)
    return None if stored.slots == new.slots else _EntryEvolution(stored, new, slots(new.uid), now)


class _EntryEvolution:
    """Rebuilds the entries of a page, slot by slot."""

    def __init__(self, stored: StateLayout, new: StateLayout, code: Slots, now: int) -> None:
        places = {slot.name: place for place, slot in enumerate(stored.slots)}
        self._moves: list[_Carry] = [
            _carry(new.uid, places[slot.name], stored.slots[places[slot.name]], slot, code.get(slot.name), now)
            if slot.name in places
            else _absent
            for slot in new.slots
        ]
        self._was_event_timed, self._is_event_timed = (
            any(slot.expires and slot.clock == "event" for slot in layout.slots) for layout in (stored, new)
        )
        self._expiry = self._forced_expiry(stored, new, now)
        self._forced = None if self._expiry is None else msgspec.msgpack.encode(self._expiry)
        self._head = msgspec.msgpack.encode([None] * (len(new.slots) + 3))[: -len(new.slots) - 3]

    def _forced_expiry(self, stored: StateLayout, new: StateLayout, now: int) -> int | None:
        """An expiry that all entries get; `None` leaves each its own.

        Where a slot begins to expire it is now: the step's next sweep visits the entry and sets the true time.
        """
        expired = {slot.name: slot.clock for slot in stored.slots if slot.expires}
        kept = {slot.name for slot in stored.slots}
        if any(slot.expires and slot.name in kept and expired.get(slot.name) != slot.clock for slot in new.slots):
            return now
        return NEVER if expired and not any(slot.expires for slot in new.slots) else None

    def __call__(self, content: bytes, _: Due) -> tuple[bytes | None, Due]:
        page = _PAGE.decode(content)
        kept = EntryPage({}, {})
        for key, raw in page.entries.items():
            entry = self._entry(key, list(map(bytes, _ENTRY.decode(raw))))
            if entry is not None:
                kept.entries[key] = msgspec.Raw(entry)
                due = self._due(page.due.get(key, _NEVER), raw)
                if due != _NEVER:
                    kept.due[key] = due
        return (msgspec.msgpack.encode(kept), kept.first_due()) if kept.entries else (None, Due())

    def _entry(self, key: bytes, entry: list[bytes]) -> bytes | None:
        """The entry in the new layout; `None` when neither content nor timers are left."""
        moved = [move(key, entry) for move in self._moves]
        event, processing, expiry = entry[-3:]
        if event == processing == _EMPTY and all(slot == _NIL for slot in moved):
            return None
        return b"".join((self._head, *moved, event, processing, self._forced or expiry))

    def _due(self, due: Due, raw: msgspec.Raw) -> Due:
        event = due.event
        if self._is_event_timed:
            # The step's next sweep visits the entry and sets the true time.
            event = MIN_TIME + 1
        elif self._was_event_timed:
            event = min(_ANY.decode(_ENTRY.decode(raw)[-3]), default=NEVER)
        return Due(event, due.processing, due.expiry if self._expiry is None else self._expiry)


_Carry = Callable[[bytes, list[bytes]], bytes]
"""Takes an encoded key and the encoded parts of its entry; gives one encoded slot."""


def _absent(_key: bytes, _entry: list[bytes]) -> bytes:
    return _NIL


def _carry(uid: str, place: int, stored: SlotLayout, new: SlotLayout, code: SlotCode | None, now: int) -> _Carry:
    """How to carry one slot over: as bytes, or opened."""
    if (stored.type, stored.version, stored.expires, stored.clock) == (new.type, new.version, new.expires, new.clock):
        return lambda _, entry: entry[place]
    content = _Content(uid, stored, new, code)
    # The step dates content without a date by its next watermark.
    clock = msgspec.msgpack.encode(MIN_TIME if new.clock == "event" else now)

    def opened(key: bytes, entry: list[bytes]) -> bytes:
        slot = entry[place]
        if slot == _NIL:
            return slot
        written, inner = map(bytes, _ENTRY.decode(slot)) if stored.expires else (clock, slot)
        written = written if stored.clock == new.clock else clock
        carried = content.carried(key, inner)
        return _PAIR + written + carried if new.expires and carried != _NIL else carried

    return opened


class _Content:
    """Migrates the content of one slot and proves that it is of the declared type before the step meets it."""

    def __init__(self, uid: str, stored: SlotLayout, new: SlotLayout, code: SlotCode | None) -> None:
        self._uid, self._stored = uid, stored
        is_raised = stored.version != new.version
        is_changed = code is not None and (is_raised or stored.type != new.type)
        self._decoder = msgspec.msgpack.Decoder(code.type) if code is not None and is_changed else None
        self._migrate = code.migrate if code is not None and is_raised else None

    def carried(self, key: bytes, content: bytes) -> bytes:
        """The content as its new type writes it: with defaults, and without fields that are gone."""
        if self._decoder is None:
            return content
        try:
            if self._migrate is not None:
                content = _ENCODER.encode(self._migrate(_ANY.decode(content), self._stored.version))
            return content if content == _NIL else _ENCODER.encode(self._decoder.decode(content))
        except Exception as problem:
            msg = f"state {self._stored.name!r} of key {_ANY.decode(key)!r} cannot be carried over"
            raise StepFailed(
                msg,
                code="SAVE-008",
                step=self._uid,
                found=f"version {self._stored.version}; {type(problem).__name__}: {problem}",
                hint="mend the migrate function of the state, or declare a default for what is new",
            ) from problem


def _column_evolution(stored: StateLayout, new: StateLayout) -> Evolve:
    """Columns by name, cast to their new types."""
    before, after = stored.column_schema, new.column_schema
    missing = sorted(set(after.names) - set(before.names))
    if missing:
        msg = "the savepoint lacks columns that the step keeps"
        raise CheckpointRefused(
            msg, code="SAVE-009", step=new.uid, found=missing, known=before.names, hint="undo the change to the step"
        )

    def evolve(content: bytes, due: Due) -> tuple[bytes | None, Due]:
        batch = pa.ipc.read_record_batch(pa.py_buffer(content), before)
        table = pa.Table.from_batches([batch]).select(after.names).cast(after).combine_chunks()
        return table.to_batches()[0].serialize().to_pybytes(), due

    return evolve
