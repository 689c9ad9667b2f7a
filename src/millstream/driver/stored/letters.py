"""What is told of the dead letters of a job, and done with them: in a process that its code and its secrets may fill."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from millstream.contract.sink import Removed
from millstream.contract.stored_questions import LetterFilter, LettersWanted
from millstream.driver.service.loading import confine_functions, job_of, options_of, planned
from millstream.driver.service.mask import Mask
from millstream.driver.stored.shown import fitting, plain
from millstream.errors import InvalidStep, MillstreamError
from millstream.inspect.checkpoint import CheckpointView, open_view
from millstream.inspect.letters.box import LetterBox, letter_box, letter_boxes
from millstream.inspect.letters.letter import Letter, Told
from millstream.inspect.letters.replaying import ask_replay, could_replay
from millstream.inspect.letters.summary import chosen
from millstream.model.secret import hold_secrets
from millstream.redaction import redacted

_REFUSED = 100
"""Refusals that are named; the rest is counted."""
_GROUPS = 1000
_PAGE_BYTES = 1 << 23


class FoundLetters(NamedTuple):
    """Letters of a step that somebody means."""

    box: LetterBox
    told: list[Told]


def about_letters(wanted: LettersWanted) -> dict[str, Any]:
    """Do what is asked."""
    spec, mask = wanted.spec, Mask()
    confine_functions(spec.definition, spec.code)
    hold_secrets(wanted.secrets)
    mask.learn(wanted.secrets.values())
    # As a run of it is: its sinks are read and purged here, and a secret may say where they are.
    planned(spec, options_of(spec))
    with open_view(spec.checkpoint, spec.manifests, read_only=True) as view:
        boxes = letter_boxes(job_of(spec.definition, spec.code), view, spec.params)
        about = {"job": spec.job, "state": state_of(view)}
        match wanted.act:
            case "groups":
                return {**about, **_groups(boxes, wanted.chosen, mask)}
            case "show":
                return {**about, **_shown(boxes, wanted, mask)}
            case "replay":
                return {**about, **_replayed(_found(boxes, wanted.chosen), mask, dry=wanted.dry)}
            case "purge":
                return {**about, **_purged(_found(boxes, wanted.chosen), dry=wanted.dry)}


def state_of(view: CheckpointView) -> str:
    """Whether the job runs, is stopped or complete: it says when letters are replayed."""
    if view.is_running:
        return "running"
    head = view.head()
    is_begun = head is not None and head.epoch is not None
    return "complete" if is_begun and view.manifest().kind == "terminal" else "stopped"


def _groups(boxes: list[LetterBox], meant: LetterFilter, mask: Mask) -> dict[str, Any]:
    """Step by step: one whose sink cannot be read does not hide the others."""
    groups: dict[tuple[str, str], dict[str, Any]] = {}
    unreadable: list[dict[str, Any]] = []
    for box in boxes if meant.step is None else _meant(boxes, meant.step):
        try:
            found = _found([box], meant)
        except MillstreamError as problem:
            if meant.step is not None or problem.domain == "internal":
                raise
            unreadable.append({"step": box.node.id, "code": problem.code, "message": problem.message})
            continue
        for each in found[0].told:
            _counted(groups, box, each)
    rows = sorted(groups.values(), key=lambda each: -each["count"])
    for row in rows[:_GROUPS]:
        row["reason"] = _text(row["reason"], mask)
    return {"groups": rows[:_GROUPS], "more": max(0, len(rows) - _GROUPS), "unreadable": unreadable}


def _counted(groups: dict[tuple[str, str], dict[str, Any]], box: LetterBox, each: Told) -> None:
    key = (box.node.id, each.letter.kind)
    empty = {"step": box.node.id, "sink": f"{box.sink.id} ({box.connector})", "reason": each.letter.kind, "count": 0}
    group = groups.setdefault(key, {**empty, "new": 0, "waiting": 0, "replayed": 0, "first": None, "last": None})
    group["count"] += 1
    group[each.state] += 1
    if each.letter.at is not None:
        at = each.letter.at.isoformat()
        group["first"], group["last"] = min(group["first"] or at, at), max(group["last"] or at, at)


def _shown(boxes: list[LetterBox], wanted: LettersWanted, mask: Mask) -> dict[str, Any]:
    """Newest first; `next` counts from the oldest, so letters that come meanwhile move nothing."""
    found = [each for part in _found(boxes, wanted.chosen) for each in part.told]
    found.sort(key=lambda each: (each.letter.at is not None, each.letter.at, each.letter.id))
    end = min(wanted.passed or len(found), len(found))
    shown: list[dict[str, Any]] = []
    size = 0
    while end > 0 and len(shown) < wanted.limit and size < _PAGE_BYTES:
        end -= 1
        shown.append(_letter(found[end], wanted.payload, mask))
        size += sum(len(value) for value in shown[-1].values() if isinstance(value, str))
    return {"letters": shown, "total": len(found), "next": end or None}


def _letter(each: Told, payload: int, mask: Mask) -> dict[str, Any]:
    letter, raw = each.letter, each.letter.raw
    texts = {"error": letter.error, "record": letter.record, "origin": letter.origin}
    texts["raw"] = None if raw is None else _decoded(raw)
    fitted = {
        name: (None, None) if text is None else fitting(_hidden(text, mask), payload) for name, text in texts.items()
    }
    return {
        "id": letter.id,
        "step": letter.step,
        "state": each.state,
        "at": None if letter.at is None else letter.at.isoformat(),
        "attempt": letter.attempt,
        "reason": _text(letter.kind, mask),
        **{name: value for name, (value, _) in fitted.items()},
        "cut": {name: size for name, (_, size) in fitted.items() if size is not None},
    }


def _decoded(raw: bytes) -> str:
    """Bytes as text where they are some; stars stand for secrets in either."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode(errors="backslashreplace")


def _hidden(text: str, mask: Mask) -> str:
    """Records are JSON as a rule: fields that are named like a secret are hidden, as they are everywhere."""
    try:
        content = json.loads(text)
    except ValueError:
        return _text(text, mask)
    if not isinstance(content, (dict, list)):
        return _text(text, mask)
    hidden = plain(content)
    return _text(text if hidden == content else json.dumps(hidden, ensure_ascii=False), mask)


def _text(text: str, mask: Mask) -> str:
    return redacted(mask.hidden(text.encode()).decode(errors="replace"))


def _replayed(found: list[FoundLetters], mask: Mask, *, dry: bool) -> dict[str, Any]:
    asked, before, done = 0, 0, []
    refused: list[tuple[str, str]] = []
    for box, told in found:
        if not told:
            continue
        answer = (could_replay if dry else ask_replay)(box, [each.letter for each in told])
        asked, before, refused = asked + answer.rows, before + answer.before, refused + answer.refused
        done += [] if dry else [{"step": [box.node.id, box.node.uid], "at": _settled(box)}]
    # Operations are shown to those who may not read records: the words behind a colon may quote one.
    named = [{"id": name, "reason": _text(reason.partition(":")[0], mask)} for name, reason in refused[:_REFUSED]]
    return {"replayed": asked, "before": before, "refused": len(refused), "refusals": named, "done": done}


def _settled(box: LetterBox) -> list[int]:
    """The clocks of epochs all letters of which were asked for."""
    told = [each for each in box.told() if each.letter.at is not None]
    left = {_millis(each.letter) for each in told if each.state == "new"}
    return sorted({at for each in told if (at := _millis(each.letter)) is not None} - left)


def _purged(found: list[FoundLetters], *, dry: bool) -> dict[str, Any]:
    """Letters that wait to be replayed stay."""
    removed, kept, why = 0, 0, ""
    for box, told in found:
        ids = {each.letter.id for each in told if each.state != "waiting"}
        if not ids or dry:
            removed += sum(each.letter.id in ids for each in told)
            continue
        gone = _removed(box, ids)
        removed, kept, why = removed + gone.rows, kept + gone.kept, gone.why or why
    waiting = sum(each.state == "waiting" for part in found for each in part.told)
    return {"removed": removed, "kept": kept, "why": why, "waiting": waiting}


def _removed(box: LetterBox, ids: set[str]) -> Removed:
    return box.remove(lambda letter: letter.id in ids)


def _found(boxes: list[LetterBox], meant: LetterFilter) -> list[FoundLetters]:
    read = [FoundLetters(box, box.told()) for box in _meant(boxes, meant.step)]
    before = None if meant.before is None else dt.datetime.fromtimestamp(meant.before / 1000, dt.UTC)
    # Ids may be of any of the steps: they are looked for in all of them together.
    fitting_ones = chosen(
        [each for part in read for each in part.told], ids=meant.ids, error=meant.error, before=before
    )
    picked = {id(each) for each in _narrowed(fitting_ones, meant)}
    return [FoundLetters(box, [each for each in told if id(each) in picked]) for box, told in read]


def _narrowed(letters: list[Told], meant: LetterFilter) -> Iterator[Told]:
    times = None if meant.times is None else set(meant.times)
    for each in letters:
        is_reason = meant.reason is None or each.letter.kind == meant.reason
        is_time = times is None or _millis(each.letter) in times
        if is_reason and is_time and meant.state in (None, each.state):
            yield each


def _meant(boxes: list[LetterBox], step: str | None) -> list[LetterBox]:
    if step is not None:
        uids = [box for box in boxes if box.node.uid == step]
        return uids or [letter_box(boxes, step)]
    if not boxes:
        msg = "no step of the job has dead letters"
        hint = "on_error=ms.dead_letter(...) gives a step some"
        raise InvalidStep(msg, code="DLQ-001", known="no step", hint=hint)
    return boxes


def _millis(letter: Letter) -> int | None:
    return None if letter.at is None else round(letter.at.timestamp() * 1000)
