"""Identifiers and protocol numbers that cross layers."""

from __future__ import annotations

import re
from typing import NewType

from millstream.errors import InvalidStep

StepId = NewType("StepId", str)
Epoch = NewType("Epoch", int)

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")


def step_id(text: str) -> StepId:
    """Check a step id: letters, digits, `_`, `.` and `-`, because ids become file and state names."""
    return StepId(_checked(text, "step id", "STEP-002"))


def job_name(text: str) -> str:
    """Check a job name by the same rule as step ids."""
    return _checked(text, "job name", "STEP-003")


def _checked(text: str, what: str, code: str) -> str:
    if not isinstance(text, str) or not _NAME.fullmatch(text):
        msg = f"{what} is not usable"
        raise InvalidStep(
            msg,
            code=code,
            found=repr(text),
            known="letters, digits, '_', '.', '-'; starts with a letter or digit; at most 128 characters",
            hint=f"choose another {what}",
        )
    return text
