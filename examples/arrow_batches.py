"""A step over Arrow batches: whole columns at a time, for numpy, pyarrow or a model; as many rows out as in.

Output:

    -- printed, epoch 0: 3 rows
    sensor  celsius  score
    a          20.0    0.0
    b          25.0  0.007
    a          36.0  0.998
"""

import numpy as np
import pyarrow as pa

import millstream as ms

READINGS = [{"sensor": "a", "celsius": 20.0}, {"sensor": "b", "celsius": 25.0}, {"sensor": "a", "celsius": 36.0}]


def add_score(batch: pa.RecordBatch) -> pa.RecordBatch:
    celsius = batch.column("celsius").to_numpy()
    score = np.round(1 / (1 + np.exp(30 - celsius)), 3)
    return batch.append_column("score", pa.array(score))


job = ms.Job("arrow-batches", guarantee="at_least_once")
readings = job.source("readings", ms.memory(READINGS), schema="sensor string, celsius double")
scored = readings.map_batches(add_score, schema="sensor string, celsius double, score double", id="score")
scored.sink("printed", ms.print())

if __name__ == "__main__":
    job.run(local=True)
