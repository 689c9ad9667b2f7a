"""What a node asks the process that reads stored state and dead letters for it: JSON values, one to a line."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from millstream.contract.driver_protocol import RunSpec

LetterAct = Literal["groups", "show", "replay", "purge"]
LINE_LIMIT = 1 << 25
"""Bytes of an answer: what is longer is no answer of ours."""


class StatePlace(msgspec.Struct, frozen=True, kw_only=True):
    """Where the state of a run or a savepoint lies."""

    path: str
    manifests: str | None = None
    epoch: int | None = None
    lineage: str | None = None
    """Of the run's own epochs: the job may have begun afresh in the same place since."""


class _Question(msgspec.Struct, frozen=True, kw_only=True, tag_field="question"):
    pass


class StepsWanted(_Question, frozen=True, kw_only=True, tag="steps"):
    """The steps that keep state, and what they keep."""

    place: StatePlace
    counted: bool = False
    """Whether keys are counted even where that starts Spark."""


class EntriesWanted(_Question, frozen=True, kw_only=True, tag="entries"):
    """What a step has stored: for a key, for keys that begin like a text, or for all of them, page by page."""

    place: StatePlace
    step: str
    state: str | None = None
    key: list[str] | None = None
    prefix: str = ""
    limit: int = 100
    group: int = 0
    """The key group to go on with, and how many rows of its share were passed."""
    passed: int = 0


class DifferenceWanted(_Question, frozen=True, kw_only=True, tag="difference"):
    """What differs between two states: how many keys of each step, or the keys of one."""

    a: StatePlace
    b: StatePlace
    step: str | None = None
    limit: int = 100


class LetterFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which dead letters are meant: all conditions hold."""

    step: str | None = None
    reason: str | None = None
    """The kind of the error, as groups name it."""
    error: str = ""
    """A text in the error."""
    ids: list[str] = []
    times: list[int] | None = None
    """Those of epochs with these clocks, in milliseconds since 1970."""
    state: Literal["new", "waiting", "replayed"] | None = None
    before: int | None = None
    """Older than that, in milliseconds since 1970."""


class LettersWanted(_Question, frozen=True, kw_only=True, tag="letters"):
    """Something about the dead letters of a job."""

    spec: RunSpec
    act: LetterAct
    chosen: LetterFilter = LetterFilter()
    secrets: dict[str, str] = {}
    limit: int = 100
    passed: int = 0
    payload: int = 4096
    """Bytes of a record that are shown."""
    dry: bool = False
    """Say what would be done, and do nothing."""

    def __repr__(self) -> str:
        return f"LettersWanted({self.act})"


StoredQuestion = StepsWanted | EntriesWanted | DifferenceWanted | LettersWanted


class StoredAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer, or the error as its fields."""

    value: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
