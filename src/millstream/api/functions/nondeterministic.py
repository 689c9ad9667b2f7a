"""How a user says that a function may answer differently the next time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from millstream.graph.function import mark_nondeterministic

F = TypeVar("F", bound=Callable[..., Any])


def nondeterministic(function: F) -> F:
    """Say that a function, or a process function's class, may give another answer when an epoch is replayed.

    Under `exactly_once` such a step is refused before a `key_by` or `rebalance`: a replayed row might reach another subtask
    than the first time. Behind the last exchange, and under weaker guarantees, it is allowed.
    """
    mark_nondeterministic(function)
    return function
