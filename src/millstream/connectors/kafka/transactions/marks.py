"""Marks: what is known of each lineage of a sink, in a topic of its own.

A mark is written in the transaction that sends an epoch, so it says what readers can see. It holds the highest token that came
here and the digests of the last epochs, so that a repeated one is compared. A closure says that a lineage publishes nothing more.
All marks of one (job, step) are in one partition that nobody else writes to: a foreign transaction that is open would hide them.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal

KEPT_EPOCHS = 100
"""Epochs behind these count as published."""
_FORMAT = 1
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]")
_LONGEST_NAME = 200

Standing = Literal["new", "published", "other rows"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """One lineage as its newest mark shows it."""

    lineage: str
    token: int = 0
    low_water: int = -1
    """Epochs up to this one are published, and were forgotten."""
    last_filled: int = -1
    """The newest epoch that had rows."""
    epochs: Mapping[int, tuple[str, int]] = dataclasses.field(default_factory=dict)
    """Digest and rows of each epoch that is published and not forgotten."""
    is_closed: bool = False
    """Another lineage took over: this one publishes nothing more."""

    def standing(self, epoch: int, digest: str) -> Standing:
        """What the mark says about an epoch with that content."""
        if epoch <= self.low_water:
            return "published"
        if epoch not in self.epochs:
            return "new"
        return "published" if self.epochs[epoch][0] == digest else "other rows"

    def owned(self, token: int) -> Mark:
        """The mark with the token of its owner."""
        return dataclasses.replace(self, token=token)

    def with_epoch(self, epoch: int, digest: str, rows: int) -> Mark:
        """The mark once an epoch is published."""
        known = {**self.epochs, epoch: (digest, rows)}
        low_water = max(self.low_water, max(known) - KEPT_EPOCHS)
        return dataclasses.replace(
            self,
            epochs={each: known[each] for each in sorted(known) if each > low_water},
            low_water=low_water,
            last_filled=max(self.last_filled, epoch if rows else -1),
        )

    def message(self) -> Record:
        """What is written to the topic, in a transaction of this lineage."""
        fields = {
            "token": self.token,
            "low_water": self.low_water,
            "last_filled": self.last_filled,
            "epochs": [[epoch, digest, rows] for epoch, (digest, rows) in self.epochs.items()],
        }
        return Record("mark", self.lineage, self.lineage, fields)


def closure(lineage: str, by: str) -> Record:
    """What is written to the topic when one lineage closes another."""
    return Record("closed", lineage, by, {})


@dataclasses.dataclass(frozen=True, slots=True)
class Record:
    """A message of the topic."""

    kind: Literal["mark", "closed"]
    lineage: str
    by: str
    """The lineage whose transaction it is in."""
    fields: Mapping[str, Any]

    @property
    def key(self) -> bytes:
        """The newest message with the same key replaces the others."""
        return f"{self.kind}/{self.lineage}".encode()

    def encoded(self) -> bytes:
        """The value of the message."""
        whole = {"format": _FORMAT, "kind": self.kind, "lineage": self.lineage, "by": self.by, **self.fields}
        return json.dumps(whole, separators=(",", ":")).encode()


def decoded_record(value: bytes) -> Record:
    """A message of the topic; `ValueError` when it is none of ours."""
    fields = json.loads(value)
    if not isinstance(fields, dict) or fields.pop("format", None) != _FORMAT:
        msg = "not a mark of this format"
        raise ValueError(msg)
    return Record(fields.pop("kind"), fields.pop("lineage"), fields.pop("by"), fields)


def marks_of(records: Iterable[Record]) -> dict[str, Mark]:
    """The marks by lineage, of messages in the order in which they stand in the topic.

    Of two lineages that close each other, the one that came first goes on.
    """
    marks: dict[str, Mark] = {}
    for record in records:
        before = marks.get(record.lineage, Mark(lineage=record.lineage))
        if record.kind == "mark":
            marks[record.lineage] = dataclasses.replace(
                before,
                token=record.fields["token"],
                low_water=record.fields["low_water"],
                last_filled=record.fields["last_filled"],
                epochs={epoch: (digest, rows) for epoch, digest, rows in record.fields["epochs"]},
            )
        elif record.by not in marks or not marks[record.by].is_closed:
            marks[record.lineage] = dataclasses.replace(before, is_closed=True)
    return marks


def mark_topic(prefix: str, job: str, step: str) -> str:
    """The topic of the marks of one sink: readable, and different for different sinks."""
    return _name(f"{marks_begin(prefix)}{job}-{step}", job, step)


def marks_begin(prefix: str) -> str:
    """How all such topics begin: no row goes there."""
    return f"{prefix}-marks-"


def transactional_id(prefix: str, job: str, step: str, lineage: str) -> str:
    """The id by which the broker tells owners of one lineage from others, and fences all but the last."""
    return _name(f"{prefix}-{job}-{step}-{lineage}", job, step, lineage)


def _name(readable: str, *parts: str) -> str:
    told_apart = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:12]
    return f"{_NOT_IN_NAMES.sub('_', readable)[: _LONGEST_NAME - 13]}-{told_apart}"
