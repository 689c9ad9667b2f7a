"""How large code may be, and how an archive is refused."""

from __future__ import annotations

import dataclasses
from typing import Literal, NoReturn

from millstream.errors import Domain, MillstreamError

ArtifactKind = Literal["zip", "wheel"]
MOST_UPLOADED = 256 << 20
MOST_ENTRIES = 10_000
MOST_UNPACKED = 1 << 30
MOST_RATIO = 100
_SMALL = 1 << 20
"""Up to here the ratio is no matter: a short file of one character repeated is no bomb."""


class ArtifactRefused(MillstreamError, ValueError):
    """An archive that is not unpacked: it is damaged, too large, or would write where it must not."""

    code = "CTL-350"
    domain: Domain = "user"


@dataclasses.dataclass(slots=True)
class UnpackBudget:
    """What an archive may become, counted while it is read: what it says about itself may be a lie."""

    read: int = 0
    made: int = 0

    def count(self, read: int, made: int) -> None:
        """Count bytes of the archive, and what they became."""
        self.read += read
        self.made += made
        if self.made > MOST_UNPACKED:
            refuse_size("unpacked it has more bytes than allowed", f"at most {MOST_UNPACKED}")
        if self.made > _SMALL and self.made > MOST_RATIO * self.read:
            refuse_size("unpacked it is too many times its size", f"at most {MOST_RATIO} times")


def refuse_size(problem: str, known: str) -> NoReturn:
    """Refuse an archive that is beyond a limit."""
    msg = f"the archive is refused: {problem}"
    hint = "leave out what the job does not need; data belongs where sources read it"
    raise ArtifactRefused(msg, code="CTL-354", known=known, hint=hint)


def refuse_damaged(problem: str, name: str | None = None) -> NoReturn:
    """Refuse an archive that is not what its format says."""
    msg = f"the archive is refused: {problem}"
    hint = "make it again, for example with `python -m zipfile -c code.zip ...` or `pip wheel`"
    found = None if name is None else repr(name)[:300]
    raise ArtifactRefused(msg, code="CTL-350", found=found, hint=hint) from None
