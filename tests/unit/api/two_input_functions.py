"""Functions that job files name."""

import millstream as ms


async def answer(row):
    return {"auction": row["auction"]}


class Both(ms.CoProcessFunction):
    seen = ms.ValueState(int)

    def process_left(self, row, ctx):
        yield {"n": 1}

    def process_right(self, row, ctx):
        yield {"n": 2}


class Rules(ms.BroadcastFunction):
    rules = ms.BroadcastState(int, int)

    def process(self, row, ctx):
        yield {"n": self.rules.get(row["auction"])}

    def process_broadcast(self, row, ctx):
        self.rules.put(row["id"], row["category"])
