"""Any number of rows out, none included."""

import millstream as ms

ORDER_KEY = {"out": ["line"]}


def words(row):
    for word in row["text"].split():
        yield {"line": row["line"], "word": word}


def job():
    job = ms.Job("flat-map-rows")
    lines = job.source("in", ms.memory([]), schema="line long, text string")
    lines.flat_map(words, schema="line long, word string").sink("out", ms.collect("out"))
    return job
