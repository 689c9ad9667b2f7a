"""Bad records are skipped at the source, in Python steps and in a process function."""

import millstream as ms

ORDER_KEY = {"out": ["user"]}


class Positive(ms.ProcessFunction):
    def process(self, row, ctx):
        if row["amount"] > 100:
            raise ValueError("too much")
        yield row


def job():
    job = ms.Job("skip-policy")
    schema = "user string, amount long"
    rows = job.source("in", ms.memory([]), schema=schema, on_error="skip")
    checked = rows.map(lambda row: {**row, "amount": 100 // row["amount"]}, schema=schema, on_error="skip")
    named = checked.filter(lambda row: row["user"].islower(), on_error="skip")
    doubled = named.flat_map(lambda row: [row] if row["amount"] > 1 else 1, schema=schema, on_error="skip")
    doubled.with_columns(amount="amount * 4").key_by("user").process(
        Positive, schema=schema, on_error="skip", id="p"
    ).sink("out", ms.collect("out"))
    return job
