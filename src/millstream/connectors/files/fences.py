"""Who may publish in a directory: one file holds the highest token seen of every sink, read and changed under a lock."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from millstream.checkpoint.stores.local import locked, make_directory, sync_directory, write_synced
from millstream.connectors.files.store import LISTS
from millstream.contract.sink import SinkContext
from millstream.errors import CheckpointRefused, Fenced

CLOSED = 2**62
"""The token of a lineage that another one has succeeded: no owner has a higher one."""

Owner = tuple[str, str, str]
"""Job, lineage and step."""

_FILE = "fences.json"
_VERSION = 1


@contextlib.contextmanager
def holding(root: Path, context: SinkContext) -> Iterator[None]:
    """Hold the lock of a sink's directory, with the sink's fence at its token.

    A higher fence raises `Fenced` before the body runs. No other owner gets in until the body ends, so what it changes
    is never the work of an owner that was fenced in between.
    """
    lists = root / LISTS
    make_directory(lists)
    with locked(lists):
        fences = read_fences(lists)
        mine = (context.job, context.lineage, context.step)
        seen = fences.get(mine, 0)
        if seen > context.token:
            raise _stale(context, seen)
        if seen < context.token:
            _write(lists, {**fences, mine: context.token})
        yield


def close_lineages(root: Path, owners: Iterable[Owner]) -> None:
    """Let nobody publish for these owners any more; only for a caller inside `holding`."""
    fences = read_fences(root / LISTS)
    closed = fences | dict.fromkeys(owners, CLOSED)
    if closed != fences:
        _write(root / LISTS, closed)


def read_fences(lists: Path) -> dict[Owner, int]:
    """The fences of a directory; one from before there were fences has none, which is token 0 for all."""
    path = lists / _FILE
    if not path.exists():
        return {}
    try:
        data = json.loads(path.read_bytes())
        tokens = {(job, lineage, step): int(token) for job, lineage, step, token in data["fences"]}
        is_intact = data["version"] == _VERSION and data["digest"] == _digest(tokens)
    except (ValueError, KeyError, TypeError):
        is_intact = False
    if not is_intact:
        msg = f"the fences in {str(path)!r} cannot be read, or do not match their digest"
        raise CheckpointRefused(
            msg, code="FILES-011", hint="end all jobs that write to the directory, then delete the file"
        )
    return tokens


def _write(lists: Path, fences: Mapping[Owner, int]) -> None:
    entries = [[*owner, token] for owner, token in sorted(fences.items())]
    content = {"version": _VERSION, "digest": _digest(fences), "fences": entries}
    # One name is enough for all: whoever writes it holds the lock, and what a crash leaves is overwritten.
    temporary = lists / f".{_FILE}"
    write_synced(temporary, json.dumps(content).encode())
    temporary.replace(lists / _FILE)
    sync_directory(lists)


def _digest(fences: Mapping[Owner, int]) -> str:
    return hashlib.sha256(json.dumps(sorted(fences.items())).encode()).hexdigest()


def _stale(context: SinkContext, seen: int) -> Fenced:
    if seen == CLOSED:
        msg = f"lineage {context.lineage!r} was succeeded by another one and may publish nothing more"
        hint = "go on with the lineage that succeeded it, or restore a savepoint as a new one"
        return Fenced(msg, step=context.step, found=f"token {context.token}", hint=hint)
    msg = "a later owner of the job has taken over the sink"
    hint = "end this run; the later one goes on"
    return Fenced(msg, step=context.step, found=f"token {context.token}", known=f"token {seen}", hint=hint)
