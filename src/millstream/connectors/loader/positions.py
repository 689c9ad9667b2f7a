"""Positions of load functions: JSON values, as they come back from a checkpoint."""

from __future__ import annotations

import json
from typing import Any

import msgspec


def storable_json(value: Any) -> Any:
    """A position as it comes back from a log: a function that gets a list there gets one here too.

    Raises:
        ValueError: it is no JSON value, or none that can be stored: of more than 64 bits, or half of a pair of surrogates.
    """
    try:
        read = json.loads(json.dumps(value, allow_nan=False))
        msgspec.msgpack.encode(read)
    except (TypeError, OverflowError) as problem:
        raise ValueError(str(problem)) from None
    return read
