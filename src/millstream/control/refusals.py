"""Why the control plane refuses something: the class says what kind, the code which case."""

from __future__ import annotations

from millstream.errors import Domain, MillstreamError, StaleVersion, StateConflict, UnknownName

__all__ = ["SchemaMismatch", "StaleVersion", "StateConflict", "UnknownName"]


class SchemaMismatch(MillstreamError, RuntimeError):
    """The database's schema is not the one this version works with."""

    code = "CTL-003"
    domain: Domain = "user"
