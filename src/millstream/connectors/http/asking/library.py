"""The client library, for all modules of this connector; where it is missing, an error says how to get it."""

from __future__ import annotations

from millstream.errors import InvalidStep

try:
    import httpcore2
    import httpx2
except ImportError as problem:
    _MSG = "the http connector needs the package httpx2"
    raise InvalidStep(_MSG, code="HTTP-003", hint="pip install 'millstream[http]'") from problem

__all__ = ["httpcore2", "httpx2"]
