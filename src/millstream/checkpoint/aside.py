"""A checkpoint that is to be removed is set aside first, in its own folder: until then the removal can be taken back."""

from __future__ import annotations

import uuid
from pathlib import Path

ASIDE = "removed-"
_OURS = "millstream"
_STAYS = "savepoints"


def set_aside(path: Path) -> list[Path]:
    """Set aside what a checkpoint consists of, apart from savepoints; what does not look like one is left alone."""
    if not (path / _OURS).is_dir() or path.is_symlink():
        return []
    parts = [part for part in path.iterdir() if part.name != _STAYS and not part.name.startswith(ASIDE)]
    aside = path / f"{ASIDE}{uuid.uuid4().hex[:12]}"
    aside.mkdir()
    try:
        # By this one a checkpoint is known: it goes first, and comes back last.
        for part in sorted(parts, key=lambda part: part.name != _OURS):
            part.rename(aside / part.name)
    except BaseException:
        put_back(aside)
        raise
    return [aside]


def put_back(aside: Path) -> None:
    """Undo `set_aside`."""
    for part in sorted(aside.iterdir(), key=lambda part: part.name == _OURS):
        part.rename(aside.parent / part.name)
    aside.rmdir()


def put_back_newest(path: Path) -> bool:
    """Put back what a process set aside that died before it could say so; `False` where there is no such thing."""
    left = [each for each in path.glob(f"{ASIDE}*") if (each / _OURS).is_dir()]
    if not left or (path / _OURS).exists():
        return False
    put_back(max(left, key=lambda each: each.stat().st_mtime_ns))
    return True
