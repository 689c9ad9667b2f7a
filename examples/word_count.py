"""Count words: one row becomes many, and the counts come out once, at the end of the input.

Output:

    -- printed, epoch 1: 8 rows
    word      n
    to        2
    the       1
    or        1
    question  1
    is        1
    not       1
    be        2
    that      1
"""

from collections.abc import Iterator
from typing import Any

import millstream as ms

LINES = [{"text": "to be or not to be"}, {"text": "that is the question"}]


def words(line: dict[str, Any]) -> Iterator[dict[str, str]]:
    for word in line["text"].split():
        yield {"word": word}


# `print` may repeat an epoch after a crash, so the job may not promise exactly_once.
job = ms.Job("word-count", guarantee="at_least_once")
lines = job.source("lines", ms.memory(LINES), schema="text string")
counts = lines.flat_map(words, schema="word string").key_by("word").aggregate(n=ms.count(), emit="end", id="counts")
counts.sink("printed", ms.print())

if __name__ == "__main__":
    job.run(local=True)
