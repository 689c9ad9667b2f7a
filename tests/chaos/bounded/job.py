"""A job with an end, for each mode: read, note what came through, count by key, write files."""

import os
from pathlib import Path

import millstream as ms

SCHEMA = "id long, key string, amount long"
ROWS_PER_PAGE = 5


def origin(config):
    """What is read: the pages of an API, the ranges of a query, or a topic up to its end."""
    server = config["server"]
    match config["bounded"]:
        case "http":
            paging = {"records": "items", "paginator": {"type": "page"}, "ahead_bytes": 2_000}
            return ms.http(f"{server}/items", allow_private=True, **paging)
        case "jdbc":
            query = f"SELECT id, key, amount FROM {config['table']}"
            return ms.jdbc_query(server, query, key="id", chunk_rows=ROWS_PER_PAGE)
        case "kafka":
            return ms.kafka(config["topic"], servers=server, start="earliest", until="latest")
    raise ValueError(config["bounded"])


def build(config):
    folder = config["folder"]
    mode = {"http": "BATCH_ROLLER", "jdbc": "SQL_TASK"}.get(config["bounded"], "STREAMING")
    settings = {"rows_per_epoch": config["rows_per_epoch"], "parallelism": config["parallelism"]}
    job = ms.Job("bounded", mode=mode, **settings)
    read = job.source("in", origin(config), schema=SCHEMA)
    noted = read.map(noting(Path(folder) / "seen" / str(config["start"])), schema=SCHEMA, id="noted")
    noted.sink("rows", ms.files(f"{folder}/out/rows", format="json"))
    totals = noted.key_by("key").aggregate(n=ms.count(), total=ms.sum("amount"), emit="end", id="counted")
    totals.sink("totals", ms.files(f"{folder}/out/totals", format="json"))
    return job


def noting(path):
    """A step that writes down which rows came through this start of the job, past all protocols."""

    def note(row):
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            os.write(file, b"%d\n" % row["id"])
        finally:
            os.close(file)
        return row

    return note
