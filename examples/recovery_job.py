"""Payments into PostgreSQL: every payment once, and the balance of each account after its last one.

Usage: python recovery_job.py FOLDER URL [--parallelism N] [--from-savepoint DIR]
"""

import argparse

import millstream as ms


class Balance(ms.ProcessFunction):
    """Adds up the payments of an account."""

    total = ms.ValueState(int)

    def process(self, row: ms.Row, context: ms.Context) -> ms.Rows:
        balance = (self.total.value() or 0) + row["amount"]
        self.total.update(balance)
        yield {"account": row["account"], "balance": balance, "payments": row["seq"]}


def build(folder: str, url: str, parallelism: int = 2) -> ms.Job:
    job = ms.Job("recovery", rows_per_epoch=1500, parallelism=parallelism)
    rows = job.source("rows", ms.files(f"{folder}/in", format="json"), schema="seq long, account string, amount long")
    rows.sink("payments", ms.jdbc(url, table="payments"))
    balances = rows.key_by("account").process(
        Balance(), schema="account string, balance long, payments long", id="balance"
    )
    balances.sink("balances", ms.jdbc(url, table="balances", mode="upsert", keys=["account"]))
    return job


if __name__ == "__main__":
    given = argparse.ArgumentParser()
    given.add_argument("folder")
    given.add_argument("url")
    given.add_argument("--parallelism", type=int, default=2)
    given.add_argument("--from-savepoint")
    asked = given.parse_args()
    place = f"{asked.folder}/checkpoint" + ("" if asked.from_savepoint is None else "-rescaled")
    build(asked.folder, asked.url, asked.parallelism).run(
        checkpoint=place, master="local[2]", from_savepoint=asked.from_savepoint
    )
