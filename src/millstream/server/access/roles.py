"""Roles, from the least to the most, and who a caller is."""

from __future__ import annotations

import dataclasses
from typing import Literal, get_args

Role = Literal["viewer", "operator", "editor", "author", "admin"]
ROLE_ORDER: tuple[Role, ...] = get_args(Role)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Somebody whose token or session was looked up."""

    token_id: str
    name: str
    role: Role
    csrf: str | None = None
    """What a page has to send with every change; `None` for a caller with a token."""

    def may(self, role: Role) -> bool:
        """Whether the caller has at least this role."""
        return ROLE_ORDER.index(self.role) >= ROLE_ORDER.index(role)
