"""A job that reads an API and writes files, for tests that kill it: arguments are the address, the checkpoint and the output."""

import sys

import millstream as ms


def job_of(url, output, **options):
    job = ms.Job("pages", rows_per_epoch=12)
    paging = {"records": "items", "paginator": {"type": "page"}, "allow_private": True, "ahead_bytes": 2000}
    rows = job.source("in", ms.http(f"{url}/items", **paging, **options), schema="id long, name string")
    rows.filter("id > 0").sink("out", ms.files(output))
    return job


if __name__ == "__main__":
    address, checkpoint, output = sys.argv[1:]
    job_of(address, output).run(local=True, checkpoint=checkpoint)
