"""What drivers and exceptions say, as the database can keep it."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


def storable(value: T) -> T:
    """The same without characters that PostgreSQL refuses: one such in an error message must not hold up a whole node."""
    match value:
        case str():
            return value.replace("\x00", "\ufffd")  # type: ignore[return-value]  # a string stays one
        case dict():
            return {storable(name): storable(each) for name, each in value.items()}  # type: ignore[return-value]
        case list():
            return [storable(each) for each in value]  # type: ignore[return-value]
        case _:
            return value
