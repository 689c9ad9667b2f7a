"""`python -m millstream.driver.stored.main PARENT`: answers questions about stored state and dead letters, one after the other.

Questions come as lines on stdin, answers leave as lines on stdout. It ends with its input or with its parent, even in the middle
of one.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import Any

import msgspec

from millstream.contract.stored_questions import (
    DifferenceWanted,
    EntriesWanted,
    LettersWanted,
    StepsWanted,
    StoredAnswer,
    StoredQuestion,
)
from millstream.driver.service.failure import error_facts

_LOOK_SECONDS = 0.5
_QUESTION: msgspec.json.Decoder[StoredQuestion] = msgspec.json.Decoder(StoredQuestion)


def main() -> None:
    """Answer until nobody is there to ask."""
    threading.Thread(target=_end_with, args=(int(sys.argv[1]),), name="millstream-parent", daemon=True).start()
    # What code of a job prints must not be taken for an answer.
    with os.fdopen(os.dup(1), "wb") as answers:
        os.dup2(2, 1)
        for line in sys.stdin.buffer:
            answers.write(msgspec.json.encode(_answered(line)) + b"\n")
            answers.flush()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_LOOK_SECONDS)
    os._exit(1)


def _answered(line: bytes) -> StoredAnswer:
    try:
        return StoredAnswer(value=_value(_QUESTION.decode(line)))
    except Exception as problem:
        return StoredAnswer(error=error_facts(problem))


def _value(question: StoredQuestion) -> dict[str, Any]:
    from millstream.driver.stored import states

    match question:
        case StepsWanted():
            return states.steps(question)
        case EntriesWanted():
            return states.entries(question)
        case DifferenceWanted():
            return states.difference(question)
        case LettersWanted():
            from millstream.driver.stored.letters import about_letters

            return about_letters(question)


if __name__ == "__main__":
    main()
