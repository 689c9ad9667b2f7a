"""Requests to replay dead letters: files in a checkpoint that a run reads once, in the order of their numbers.

`replays/` of the checkpoint holds `log.json`, which names the log, and for each step a folder of files `0000000001.arrow`: the
rows that the step is to take again, in the form of `records.replayed`. A number is given once, so whoever writes one has seen all
requests before it: no letter stands in two of them. How far a run has come stands in its epoch plans as `log/number`; a position
of another log, as one from a savepoint of another checkpoint may be, stands before the first request.
"""

from __future__ import annotations

import uuid
from pathlib import Path

import msgspec

from millstream.checkpoint.sealed import damaged
from millstream.checkpoint.stores.local import LocalStore

FOLDER = "replays"
_LOG = "log.json"
_ENDING = ".arrow"


class _LogName(msgspec.Struct, frozen=True):
    id: str


class ReplayLog:
    """The requests of one checkpoint. Looking at them makes nothing."""

    def __init__(self, checkpoint: Path) -> None:
        self._root = checkpoint.resolve() / FOLDER

    def requests(self, uid: str) -> list[str]:
        """The positions behind each request to a step, in order."""
        if not (self._root / uid).is_dir():
            return []
        log = self._id()
        numbers = sorted(path.stem for path in (self._root / uid).glob(f"*{_ENDING}") if path.stem.isdigit())
        return [f"{log}/{number}" for number in numbers]

    def file(self, uid: str, position: str) -> Path:
        """The file of a request, by the position behind it."""
        return self._root / uid / f"{position.rpartition('/')[2]}{_ENDING}"

    def add(self, uid: str, content: bytes, *, behind: str | None) -> str | None:
        """Add a request behind the last one, durably; nothing where another came first. The position behind it."""
        store = LocalStore(self._root)
        store.create(_LOG, msgspec.json.encode(_LogName(uuid.uuid4().hex[:12])))
        number = 1 if behind is None else int(behind.rpartition("/")[2]) + 1
        name = f"{number:010d}"
        is_mine = store.create(f"{uid}/{name}{_ENDING}", content)
        return f"{self._id()}/{name}" if is_mine else None

    def _id(self) -> str:
        path = self._root / _LOG
        try:
            return msgspec.json.decode(path.read_bytes(), type=_LogName).id
        except (OSError, msgspec.DecodeError) as problem:
            what = f"{FOLDER}/{_LOG}"
            raise damaged(what, str(problem)) from None


def waiting(requests: list[str], position: str | None) -> list[str]:
    """The requests behind a position, by the positions behind them; all of them where it is none of this log."""
    return requests[requests.index(position) + 1 :] if position in requests else requests
