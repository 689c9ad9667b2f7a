"""Three keyed steps in a row, each keyed by something else."""

import millstream as ms

ORDER_KEY = {"out": ["n"]}


def job():
    job = ms.Job("three-levels")
    rows = job.source("in", ms.memory([]), schema="word string")
    counts = rows.key_by("word").aggregate(n=ms.count(), emit="end", id="words")
    lengths = counts.with_columns(size="length(word)").key_by("size").aggregate(n=ms.sum("n"), emit="end", id="sizes")
    sums = lengths.key_by("n").aggregate(sizes=ms.count(), most=ms.max("size"), emit="end", id="numbers")
    sums.sink("out", ms.collect("out"))
    return job
