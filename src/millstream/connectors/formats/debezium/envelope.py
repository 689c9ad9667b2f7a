"""The envelope around a change: bare, or as the payload beside its schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

import msgspec

from millstream.model.change import ChangeKind

LETTERS = {"c": ChangeKind.INSERT, "u": ChangeKind.UPDATE, "d": ChangeKind.DELETE, "r": ChangeKind.READ}
_TRUNCATE = "t"
_NULL = msgspec.Raw(b"null")

Asked = Literal["op", "before", "ts", "lsn"]
"""What a column may ask of the envelope."""


class TableChange(NamedTuple):
    """One change of a row, whose columns are still json."""

    kind: ChangeKind
    row: bytes
    """After the change; before it, if it is gone."""
    before: bytes | None
    """Before the change, where a column asks for it."""
    ts: int | None
    """When the database made the change, in milliseconds since 1970."""
    lsn: int | None


class _ChangeSource(msgspec.Struct, gc=False):
    ts_ms: int | None = None
    lsn: int | None = None


class _Envelope(msgspec.Struct, gc=False):
    op: str | None = None
    before: msgspec.Raw = _NULL
    after: msgspec.Raw = _NULL
    payload: _Envelope | msgspec.UnsetType | None = msgspec.UNSET


class _SourcedEnvelope(_Envelope):
    ts_ms: int | None = None
    source: _ChangeSource | None = None
    payload: _SourcedEnvelope | msgspec.UnsetType | None = msgspec.UNSET


class Envelopes:
    """Opens envelopes. What no column asks for is not looked at."""

    def __init__(self, asked: Mapping[str, Asked], *, skips_truncates: bool) -> None:
        self._takes_before = "before" in asked.values()
        self._skips_truncates = skips_truncates
        self._decode = msgspec.json.Decoder(
            _Envelope if {"ts", "lsn"}.isdisjoint(asked.values()) else _SourcedEnvelope
        ).decode

    def change(self, message: bytes) -> TableChange | str | None:
        """The change; `None` for a message that is none and may be passed over; else what is wrong."""
        try:
            envelope: _Envelope | None = self._decode(message)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
            return f"no Debezium envelope: {problem}"
        if envelope is not None and not isinstance(envelope.payload, msgspec.UnsetType):
            envelope = envelope.payload
        if envelope is None or (envelope.op == _TRUNCATE and self._skips_truncates):
            return None
        return self._opened(envelope)

    def _opened(self, envelope: _Envelope) -> TableChange | str:
        kind = LETTERS.get(envelope.op or "")
        if kind is None:
            return _refusal(envelope.op)
        row = bytes(envelope.before if kind is ChangeKind.DELETE else envelope.after)
        if row == b"null":
            side = "before" if kind is ChangeKind.DELETE else "after"
            return f"a change of op {envelope.op!r} without {side!r}: there is no row"
        before = bytes(envelope.before) if self._takes_before else b"null"
        ts, lsn = _origin(envelope) if isinstance(envelope, _SourcedEnvelope) else (None, None)
        return TableChange(kind, row, None if before == b"null" else before, ts, lsn)


def _origin(envelope: _SourcedEnvelope) -> tuple[int | None, int | None]:
    source = envelope.source or _ChangeSource()
    return envelope.ts_ms if source.ts_ms is None else source.ts_ms, source.lsn


def _refusal(op: str | None) -> str:
    if op == _TRUNCATE:
        return "the table was truncated, which no row stands for; pass truncates='skip' to pass over it"
    if op is None:
        return "no Debezium envelope: it has no op"
    return f"unknown op {op!r} of a Debezium envelope; known: {', '.join(LETTERS)}"
