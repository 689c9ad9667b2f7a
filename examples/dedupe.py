"""Drop duplicates with a process function: one instant for each order id, forgotten an hour later.

Output:

    -- printed, epoch 0: 3 rows
    id  amount
    o1      20
    o2      35
    o3       5
"""

from collections.abc import Iterator
from typing import Any

import millstream as ms

ORDERS = [
    {"id": "o1", "amount": 20},
    {"id": "o2", "amount": 35},
    {"id": "o1", "amount": 20},
    {"id": "o3", "amount": 5},
    {"id": "o2", "amount": 35},
]


class FirstOnly(ms.ProcessFunction):
    seen_at = ms.ValueState(int, ttl="1h")  # a time to live is counted by the clock of the run, not by event time

    def process(self, row: dict[str, Any], ctx: ms.Context) -> Iterator[dict[str, Any]]:
        if self.seen_at.value() is None:
            self.seen_at.update(ctx.now)
            yield row


job = ms.Job("dedupe", guarantee="at_least_once")
orders = job.source("orders", ms.memory(ORDERS), schema="id string, amount long")
unique = orders.key_by("id").process(FirstOnly, schema="id string, amount long", id="unique")
unique.sink("printed", ms.print())

if __name__ == "__main__":
    job.run(local=True)
