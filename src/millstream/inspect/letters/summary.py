"""What there is to say of the dead letters of a step in one line, and which of them somebody means."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from millstream.errors import InvalidStep
from millstream.inspect.letters.box import LetterBox
from millstream.inspect.letters.letter import Told

_SHOWN = 5


def summary(box: LetterBox) -> dict[str, Any]:
    """Counts, the newest, the kinds of errors and where the records stood."""
    letters = box.told()
    states = Counter(each.state for each in letters)
    newest = max((each.letter.at for each in letters if each.letter.at is not None), default=None)
    return {
        "step": box.node.id,
        "sink": f"{box.sink.id} ({box.connector})",
        "letters": len(letters),
        "new": states["new"],
        "waiting": states["waiting"],
        "replayed": states["replayed"],
        "newest": newest,
        "errors": dict(Counter(each.letter.kind for each in letters).most_common(_SHOWN)),
        "origins": dict(
            Counter(_place(each.letter.origin) for each in letters if each.letter.origin).most_common(_SHOWN)
        ),
    }


def _place(origin: str) -> str:
    """Where a record stood, without its place there."""
    return "replayed before" if origin.startswith("attempt ") else origin.partition("@")[0]


def chosen(
    letters: Iterable[Told], *, ids: Sequence[str] = (), error: str = "", before: dt.datetime | None = None
) -> list[Told]:
    """The letters that fit: of these ids or beginnings of ids, with a text in their error, older than that."""
    found = [
        each
        for each in letters
        if error.lower() in each.letter.error.lower()
        and (before is None or (each.letter.at is not None and each.letter.at < before))
    ]
    if not ids:
        return found
    meant = {_meant(wanted, {each.letter.id for each in found}) for wanted in ids}
    return [each for each in found if each.letter.id in meant]


def _meant(wanted: str, ids: Iterable[str]) -> str:
    """The one id that begins like this. Letters that nobody named must not be replayed or removed, least of all by empty text."""
    fitting = sorted(each for each in ids if wanted and each.startswith(wanted))
    if len(fitting) == 1:
        return fitting[0]
    msg = "letters of several ids begin with that" if fitting else "no letter has that id"
    hint = "give more of the id; millstream dlq show JOB STEP lists them"
    raise InvalidStep(msg, code="DLQ-006", found=repr(wanted), known=fitting[:_SHOWN] or None, hint=hint)
