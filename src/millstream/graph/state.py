"""State descriptors: the declared name, kind, type and time to live of a piece of keyed state."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

StateKind = Literal["value", "list", "map"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StateDescriptor:
    """One state of a step. `type` is what each value (or list item, or map value) is decoded to."""

    name: str
    kind: StateKind
    type: Any = dataclasses.field(compare=False)
    key_type: Any = dataclasses.field(default=None, compare=False)
    ttl: int | None = None
    type_text: str
