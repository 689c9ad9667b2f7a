"""Orders from Kafka: totals per customer and minute into PostgreSQL and into another topic, exactly once.

Usage: python kafka_job.py FOLDER SERVERS URL
"""

import argparse

import millstream as ms


def build(servers: str, url: str) -> ms.Job:
    job = ms.Job("kafka-demo", rows_per_epoch=4000, parallelism=2)
    orders = job.source(
        "orders",
        ms.kafka("orders", servers=servers, start="earliest", until="latest", group="kafka-demo"),
        schema="id long, customer string, amount long, at long",
    )
    orders.sink("paid", ms.jdbc(url, table="paid"))
    windows = orders.event_time("at", max_delay="5s").key_by("customer").window(ms.tumbling("1m"))
    totals = windows.aggregate(total=ms.sum("amount"), n=ms.count(), id="totals")
    totals.sink("totals-table", ms.jdbc(url, table="totals"))
    totals.sink("totals-topic", ms.kafka("totals", servers=servers, key_fields=["customer"]))
    return job


if __name__ == "__main__":
    given = argparse.ArgumentParser()
    given.add_argument("folder")
    given.add_argument("servers")
    given.add_argument("url")
    asked = given.parse_args()
    build(asked.servers, asked.url).run(checkpoint=f"{asked.folder}/checkpoint", master="local[2]")
