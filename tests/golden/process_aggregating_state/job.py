"""Aggregating state: values of one type go into an accumulator of another and come out as a third."""

import dataclasses

import millstream as ms

ORDER_KEY = {"out": ["user"]}


@dataclasses.dataclass
class Mean:
    total: float = 0.0
    count: int = 0

    def plus(self, value):
        return Mean(self.total + value, self.count + 1)

    def value(self):
        return self.total / self.count


def noted(words, word):
    words.append(word)
    return words


class Collect(ms.ProcessFunction):
    mean = ms.AggregatingState(Mean, create=Mean, add=Mean.plus, result=Mean.value)
    words = ms.AggregatingState(list[str], create=list, add=noted, result=" ".join)
    plain = ms.AggregatingState(dict[str, int], create=dict, add=lambda seen, word: seen | {word: len(seen)})

    def process(self, row, ctx):
        if row["n"] is not None:
            self.mean.add(row["n"])
        if row["word"] == "stop":
            self.words.clear()
        else:
            self.words.add(row["word"])
            self.plain.add(row["word"])
        yield {
            "user": row["user"],
            "mean": self.mean.get(),
            "words": self.words.get(),
            "different": len(self.plain.get() or {}),
        }


def job():
    job = ms.Job("process-aggregating-state")
    rows = job.source("in", ms.memory([]), schema="user string, n long, word string")
    schema = "user string, mean double, words string, different long"
    rows.key_by("user").process(Collect, schema=schema, id="aggregating").sink("out", ms.collect("out"))
    return job
