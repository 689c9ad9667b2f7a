"""Names that stand in stored content and become paths or keys: believed only once they are known to stay inside.

What is stored may have been damaged, or made by somebody else. A checksum tells that content is whole, not who wrote it.
"""

from __future__ import annotations

import re
from pathlib import Path

from millstream.errors import CheckpointRefused

_FOREIGN = re.compile(r"[\0\\]|^[A-Za-z]:")
"""What some system takes for more than a name: a zero byte, a backslash, the letter of a drive."""
_HINT = "somebody changed or made it up; restore it from a copy, and trust nothing that lies beside it"


def stays_inside(name: str) -> bool:
    """Whether a path is relative and made of plain parts, so that joined to a folder it stays below it."""
    return "\0" not in name and all(part not in {"", ".", ".."} for part in name.split("/"))


def stored_path(name: str, *, of: str, code: str = "CKPT-061") -> str:
    """A stored path below a folder, as this program writes them.

    Args:
        name: what is stored.
        of: what it is the name of, for the error.
        code: of the error.
    """
    if not stays_inside(name) or _FOREIGN.search(name):
        raise outside(name, of=of, code=code)
    return name


def stored_part(name: str, *, of: str, code: str = "CKPT-061") -> str:
    """A stored name that becomes one part of a path or key."""
    if "/" in name:
        raise outside(name, of=of, code=code)
    return stored_path(name, of=of, code=code)


def below(folder: Path, name: str, *, of: str, code: str = "CKPT-061") -> Path:
    """The path of a stored name below a folder; one that a link leads out of it is refused.

    The folder itself may be a link: that is the choice of whoever named it.
    """
    path = folder / stored_path(name, of=of, code=code)
    if not path.resolve().is_relative_to(folder.resolve()):
        raise outside(name, of=f"{of}, which is a link,", code=code)
    return path


def outside(name: object, *, of: str, code: str) -> CheckpointRefused:
    """The error for a stored name that leads outside, or is none."""
    msg = f"the stored name of {of} leads out of its folder, or is no name"
    return CheckpointRefused(
        msg, code=code, found=repr(name), known="relative names without `.`, `..`, empty parts and \\", hint=_HINT
    )
