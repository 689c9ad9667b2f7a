"""What is done before a JVM ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Farewell(NamedTuple):
    """What Python does before a JVM that it is connected to ends."""

    stop: Callable[[], None]
    """Tell Spark to stop."""
    bear: Callable[[], None]
    """Do not complain that the JVM is gone."""
    forget: Callable[[], None]
    """Let this process start another one."""
