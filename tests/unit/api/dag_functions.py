"""Functions that definitions in the tests name without their module."""

from typing import TypedDict


class Event(TypedDict):
    user: str
    amount: int


def parseEvent(row) -> Event:
    user, _, amount = row["value"].partition(":")
    return {"user": user, "amount": int(amount or 0)}


def isValid(row) -> bool:
    return row["amount"] > 0


amount = "no function"
