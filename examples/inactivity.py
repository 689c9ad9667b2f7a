"""Timers: say so when a machine has sent nothing for ten seconds of event time.

Each row moves the timer of its machine; when the watermark passes it, `on_timer` runs. At the end of the input the
watermark goes to the end of time, so every timer that is still set fires then.

Output:

    -- printed, epoch 2: 1 rows
    machine  silent_since  noticed
    saw              2000    12000
    -- printed, epoch 3: 2 rows
    machine  silent_since  noticed
    press           16000    26000
    saw             30000    40000
"""

from collections.abc import Iterator
from typing import Any

import millstream as ms

SILENCE = 10_000  # times in a process function are milliseconds
READINGS = [
    {"machine": "press", "at": 0},
    {"machine": "saw", "at": 2_000},
    {"machine": "press", "at": 8_000},
    {"machine": "press", "at": 16_000},
    {"machine": "saw", "at": 30_000},
]


class Watch(ms.ProcessFunction):
    last = ms.ValueState(int)

    def process(self, row: dict[str, Any], ctx: ms.Context) -> None:
        before = self.last.value()
        if before is not None:
            ctx.delete_event_timer(before + SILENCE)
        self.last.update(row["at"])
        ctx.event_timer(row["at"] + SILENCE)

    def on_timer(self, timestamp: int, ctx: ms.Context) -> Iterator[dict[str, Any]]:
        yield {"machine": ctx.key[0], "silent_since": self.last.value(), "noticed": timestamp}


job = ms.Job("inactivity", guarantee="at_least_once", rows_per_epoch=2)
readings = job.source("readings", ms.memory(READINGS), schema="machine string, at long").event_time("at")
alerts = readings.key_by("machine").process(Watch, schema="machine string, silent_since long, noticed long", id="watch")
alerts.sink("printed", ms.print())

if __name__ == "__main__":
    job.run(local=True)
