"""What a load function is told."""

from __future__ import annotations

import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LoaderContext:
    """What a load function is told beside the position behind which it begins."""

    step: str
    """The source it loads for."""
    columns: tuple[str, ...]
    """The columns of the source's schema."""
    end: Any = None
    """The position at which this call will be left; `None` where nobody knows it yet."""
