"""The client library, for all modules of this connector; where it is missing, an error says how to get it."""

from __future__ import annotations

from millstream.connectors.extras import missing_extra

try:
    import h11
    import httpcore2
    import httpx2
except ModuleNotFoundError as problem:
    raise missing_extra(problem, extra="http") from problem

__all__ = ["h11", "httpcore2", "httpx2"]
