"""What a job that is data may reach from the machine it runs on: said by the operator, kept by planner and drivers."""

from __future__ import annotations

import msgspec


class Reach(msgspec.Struct, frozen=True, kw_only=True):
    """The rule for definitions that are data; code does what it likes."""

    private: bool = False
    """Whether a job file may say that the `http` connector reaches into private networks and this machine."""
    closed: tuple[str, ...] = ()
    """Files and folders of the service itself: tokens, keys, metadata, archives, folders of other runs."""
