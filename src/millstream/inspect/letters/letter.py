"""A dead letter as people name it: its id is made of what it says, so it is the same wherever and whenever it is read."""

from __future__ import annotations

import dataclasses
import datetime as dt
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

from millstream.records.codecs import Row

State = Literal["new", "waiting", "replayed"]
"""Whether it was never asked for, waits for an epoch that replays it, or was replayed."""
_AGAIN = re.compile(r"attempt (\d+) of ([0-9a-f]+)(?:, (.*))?", re.DOTALL)
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """One letter."""

    id: str
    step: str
    error: str
    record: str
    at: dt.datetime | None
    origin: str | None
    raw: bytes | None

    @property
    def kind(self) -> str:
        """The error without what differs from record to record: its class, or its first words."""
        return self.error.partition("; found")[0].partition(":")[0]

    @property
    def attempt(self) -> int:
        """How often the step has had the row."""
        again = _AGAIN.fullmatch(self.origin or "")
        return int(again[1]) if again else 1

    @property
    def next_origin(self) -> str:
        """The origin of the letter that it becomes if the row fails again."""
        again = _AGAIN.fullmatch(self.origin or "")
        first, where = (again[2], again[3]) if again else (self.id, self.origin)
        return f"attempt {self.attempt + 1} of {first}" + (f", {where}" if where else "")


class Told(NamedTuple):
    """A letter, and what was done with it."""

    letter: Letter
    state: State


def letter_of(row: Row) -> Letter:
    """A row of a dead-letter sink; text that is not there and empty text are the same to some sinks."""
    said = {name: row.get(name) or None for name in ("step", "error", "record", "origin", "raw")}
    raw = said["raw"]
    at = row.get("at")
    identity = [said["step"], said["error"], said["record"], said["origin"], raw.hex() if raw else None, _millis(at)]
    digest = hashlib.sha256(json.dumps(identity, ensure_ascii=True).encode()).hexdigest()[:16]
    return Letter(
        id=digest,
        step=said["step"] or "",
        error=said["error"] or "",
        record=said["record"] or "",
        at=at,
        origin=said["origin"],
        raw=raw,
    )


def told(letters: Iterable[Letter], waiting: Counter[str], replayed: Counter[str]) -> list[Told]:
    """Letters with their states. Those of one id are alike: as many of them were asked for as requests say."""
    left = {"replayed": Counter(replayed), "waiting": Counter(waiting)}

    def state(letter: Letter) -> State:
        for name, counts in left.items():
            if counts[letter.id]:
                counts[letter.id] -= 1
                return "replayed" if name == "replayed" else "waiting"
        return "new"

    return [Told(letter, state(letter)) for letter in letters]


def _millis(at: Any) -> int | None:
    return None if at is None else (at - _EPOCH) // dt.timedelta(milliseconds=1)
