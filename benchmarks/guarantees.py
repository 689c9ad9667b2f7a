"""What exactly_once costs: the same job under exactly_once and at_least_once, to files and to PostgreSQL."""

from __future__ import annotations

import pandas as pd
from tests.servers.postgres import PostgresServer

import millstream as ms
from benchmarks import ours
from benchmarks.data import SCHEMA, Shape, generated
from benchmarks.measure import Line, Measured, Setting, Sides, with_output

SHAPES = {
    "full": Shape(epoch_rows=1_000_000, epochs=6, keys=20_000, files_per_epoch=4),
    "small": Shape(epoch_rows=20_000, epochs=3, keys=500, files_per_epoch=2, warm=1),
}
TARGET = 1.3


def _job(setting: Setting, guarantee: str) -> tuple[ms.Job, ms.DataStream]:
    shape = SHAPES[setting.scale]
    job = ms.Job("bench", rows_per_epoch=shape.epoch_rows, guarantee=guarantee)
    rows = job.source("rows", ms.files(generated(setting.data, shape)), schema=SCHEMA)
    return job, rows.key_by("k").aggregate(n=ms.count(), total=ms.sum("x"), id="totals")


def _files(setting: Setting, guarantee: str) -> Measured:
    job, totals = _job(setting, guarantee)
    totals.sink("out", ms.files(setting.output))
    return with_output(ours.epochs_of(job, setting), setting.output)


def _postgres(setting: Setting, guarantee: str) -> Measured:
    server = PostgresServer().start()
    try:
        job, totals = _job(setting, guarantee)
        totals.sink("out", ms.jdbc(server.url, table="totals"))
        epochs = ours.epochs_of(job, setting)
        rows = pd.DataFrame(server.execute("SELECT k, n, total FROM totals"))
    finally:
        server.stop()
    hashes = pd.util.hash_pandas_object(rows, index=False).to_numpy()
    return Measured(epochs=epochs, rows=len(rows), digest=f"{int(hashes.sum()):x}")


SIDES = {
    "files_exactly": lambda setting: _files(setting, "exactly_once"),
    "files_at_least": lambda setting: _files(setting, "at_least_once"),
    "postgres_exactly": lambda setting: _postgres(setting, "exactly_once"),
    "postgres_at_least": lambda setting: _postgres(setting, "at_least_once"),
}
USES = tuple(("guarantees", side) for side in SIDES)


def lines(sides: Sides, scale: str) -> list[Line]:
    """Seconds an epoch, exactly_once against at_least_once."""
    warm = SHAPES[scale].warm
    return [
        Line(
            what=f"exactly_once, {sink}",
            unit="s/epoch",
            ours=sides[f"{sink}_exactly"].period(warm),
            rival=sides[f"{sink}_at_least"].period(warm),
            rival_name="at_least_once",
            ratio=sides[f"{sink}_exactly"].period(warm) / sides[f"{sink}_at_least"].period(warm),
            at_most=TARGET,
            equal=sides[f"{sink}_exactly"].digest == sides[f"{sink}_at_least"].digest,
        )
        for sink in ("files", "postgres")
    ]
