"""Two key columns of different names and types on either side; doubles with NaN and both zeros are keys too."""

import millstream as ms


def inputs():
    return {
        "left": [
            {"user": "a", "day": 1.5, "n": 1},
            {"user": "a", "day": 0.0, "n": 2},
            {"user": "b", "day": None, "n": 3},
            {"user": "a", "day": 1.5, "n": 4},
        ],
        "right": [
            {"who": "a", "when": 1.5, "m": 10},
            {"who": "a", "when": -0.0, "m": 20},
            {"who": "b", "when": None, "m": 30},
            {"who": "b", "when": 1.5, "m": 40},
        ],
    }


def expected():
    return {
        "out": [
            {"user": "a", "day": 1.5, "n": 1, "who": "a", "when": 1.5, "m": 10},
            {"user": "a", "day": 0.0, "n": 2, "who": "a", "when": -0.0, "m": 20},
            {"user": "a", "day": 1.5, "n": 4, "who": "a", "when": 1.5, "m": 10},
        ]
    }


def job():
    job = ms.Job("join-composite-key")
    left = job.source("left", ms.memory([]), schema="user string, day double, n long")
    right = job.source("right", ms.memory([]), schema="who string, when double, m long")
    left.key_by("user", "day").join(right.key_by("who", "when"), id="pairs").sink("out", ms.collect("out"))
    return job
