"""`python -m millstream.driver.service.trying`: a first look at one connector, for a server that no library may hang.

What to look at comes as JSON on stdin, secrets among it; what was seen, without them, goes as JSON to stdout.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import json
import math
import os
import resource
import sys
from typing import Any

import msgspec

from millstream.api.jobfile.target import model_of
from millstream.contract.reach import Reach
from millstream.driver.service.failure import error_facts
from millstream.driver.service.loading import confine_functions, job_of
from millstream.driver.service.mask import Mask
from millstream.driver.service.reach import check_reach, confine_reach
from millstream.inspect.connectors.trying import SinkLook, try_step
from millstream.model.secret import hold_secrets
from millstream.plan.compile import compile_job

_CPU_SECONDS = 60
_LONGEST_TEXT = 1000
_MOST_BYTES = 256 << 10


def main() -> int:
    """Look at what stdin names."""
    asked = json.loads(sys.stdin.read())
    resource.setrlimit(resource.RLIMIT_CPU, (_CPU_SECONDS, _CPU_SECONDS))
    mask = Mask()
    mask.learn(asked["secrets"].values())
    # What a library prints must not be taken for the answer.
    with os.fdopen(os.dup(1), "wb") as answer, contextlib.redirect_stdout(sys.stderr):
        os.dup2(2, 1)
        try:
            told = {"seen": looked_at(asked)}
        except Exception as problem:
            told = {"error": error_facts(problem)}
        answer.write(mask.hidden(_written(told)))
    return 0


def looked_at(asked: dict[str, Any]) -> dict[str, Any]:
    """What a source or sink of the definition shows."""
    confine_functions(asked["definition"], None)
    if asked["secrets"]:
        hold_secrets(asked["secrets"])
    reach = msgspec.convert(asked["reach"], Reach)
    confine_reach(asked["definition"], reach)
    job = job_of(asked["definition"], None)
    check_reach(asked["definition"], compile_job(model_of(job, None)).stream, reach)
    seen = try_step(job, asked["step"], limit=asked["rows"], seconds=asked["seconds"])
    if isinstance(seen, SinkLook):
        return {"found": seen.found or [], "is_looked_at": seen.found is not None}
    names = ("rows", "is_finished", "lag", "blocked", "partitions", "found")
    bad = [{"error": each.error, "origin": each.origin, "raw": each.raw} for each in seen.bad]
    return {
        **{name: getattr(seen, name) for name in names},
        "bad": bad,
        "lost": list(map(dataclasses.asdict, seen.lost)),
    }


def _written(told: dict[str, Any]) -> bytes:
    """As JSON of bounded size: rows that do not fit any more are left out."""
    rows = told.get("seen", {}).get("rows", [])
    while len(content := json.dumps(_cut(told)).encode()) > _MOST_BYTES and rows:
        rows.pop()
    return content


def _cut(value: Any) -> Any:
    match value:
        case dict():
            return {str(name): _cut(each) for name, each in value.items()}
        case list() | tuple():
            return [_cut(each) for each in value]
        case bytes():
            return base64.b64encode(value[:_LONGEST_TEXT]).decode()
        case None | bool() | int():
            return value
        case float() if math.isfinite(value):
            return value
        case _:
            text = str(value)
            return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}…"


if __name__ == "__main__":
    ended_with = main()
    sys.stderr.flush()
    # Threads of a library may still wait for something: nobody waits for them.
    os._exit(ended_with)
