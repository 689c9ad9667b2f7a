"""Orders per minute: filter, enrich, key, window, and three files sinks that commit together.

    python examples/make_orders.py                       # the input, once
    python examples/orders.py                            # on Spark; run it again to resume or to see it is complete
    millstream run examples/orders.py --local            # the same job in this process
    millstream plan examples/orders.py                   # how it runs: levels, chains, shuffles

It reads ORDERS_DATA/orders (default demo-data/orders) and writes ORDERS_DATA/totals, late and dead. Two rows of totals:

    customer  window_start               window_end                    total     n  last_region
    c7        2024-05-01 12:00:00+00:00  2024-05-01 12:01:00+00:00  12587.42   244  Americas
    c0        2024-05-01 12:00:00+00:00  2024-05-01 12:01:00+00:00  70907.15  1430  Europe
"""

import os
from typing import Any

import millstream as ms

DATA = os.environ.get("ORDERS_DATA", "demo-data")
ORDER = "order long, customer string, country string, amount decimal(10,2), created_at timestamp"
REGIONS = {"DE": "Europe", "FR": "Europe", "US": "Americas", "JP": "Asia"}


def enrich(order: dict[str, Any]) -> dict[str, Any]:
    return {**order, "region": REGIONS[order["country"]]}


job = ms.Job("orders-per-minute", guarantee="exactly_once", rows_per_epoch=20_000)
orders = (
    job.source(
        "orders",
        ms.files(f"{DATA}/orders", format="json"),
        schema=ORDER,
        on_error=ms.dead_letter(ms.files(f"{DATA}/dead", format="json")),  # lines that are no orders
    )
    .event_time("created_at", max_delay="5s")
    .filter("amount > 0")  # an expression: vectorised, no Python per row
    .map(enrich, schema=f"{ORDER}, region string")  # Python per row, fused with its neighbours
)
totals = (
    orders.key_by("customer")
    .window(ms.tumbling("1m"), allowed_lateness="10s")
    .aggregate(total=ms.sum("amount"), n=ms.count(), last_region=ms.last("region"), id="totals")
)
totals.sink("totals", ms.files(f"{DATA}/totals", format="parquet"))
totals.late.sink("late", ms.files(f"{DATA}/late", format="parquet"))

if __name__ == "__main__":
    job.run(checkpoint=f"{DATA}/checkpoint")
