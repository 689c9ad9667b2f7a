"""What a source decides once and must find again: where "latest" was, which end was frozen, which moment counted.

The planner asks for the beginning more than once, also after a restart and in the name of another owner; before the first epoch
is durable nothing but the folder of the source remembers the answer.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from millstream.checkpoint.sealed import seal, unseal
from millstream.checkpoint.stores.local import LocalStore

_FORMAT = 1


def decided_once(folder: Path | None, name: str, decide: Callable[[], Any]) -> Any:
    """The JSON value that was decided first, by whomever; it is durable before it is returned.

    Args:
        folder: `log_dir` of the source. Without a checkpoint there is none: then whoever asks keeps the answer.
        name: of the decision, unique in the folder.
        decide: asked only where nothing is decided yet. Of two owners that decide at once, one is believed by both.
    """
    if folder is None:
        return decide()
    store, file = LocalStore(folder), f"{name}.json"
    stored = store.read(file)
    if stored is None:
        store.create(file, seal(decide(), format=_FORMAT))
        stored = store.read(file)
    assert stored is not None, f"{file} was there a moment ago"
    return unseal(stored, name=f"{folder.name}/{file}", format=_FORMAT)
