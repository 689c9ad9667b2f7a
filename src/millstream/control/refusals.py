"""Why the control plane refuses something: the class says what kind, the code which case."""

from __future__ import annotations

from millstream.errors import Domain, MillstreamError


class UnknownName(MillstreamError, LookupError):
    """A job, run, node or other thing that is not there, or that the asker may not know of."""

    code = "CTL-010"
    domain: Domain = "user"


class StateConflict(MillstreamError, RuntimeError):
    """The thing is there, but not in a state in which that can be done, or another has done it before."""

    code = "CTL-011"
    domain: Domain = "user"


class StaleVersion(MillstreamError, RuntimeError):
    """The asker had seen an older version than the one that is to be changed."""

    code = "CTL-012"
    domain: Domain = "user"


class SchemaMismatch(MillstreamError, RuntimeError):
    """The database's schema is not the one this version works with."""

    code = "CTL-003"
    domain: Domain = "user"
