"""Greedy stages from a job file: one that `until` closes, one at the end, and repetitions that must be near each other.

Worked out by hand: a greedy stage is left when it can take no more, and on the last stage every prefix is a match.
"""

import millstream as ms

JOB = """
job: pattern-greedy
steps:
  - source: in
    from: {memory: {rows: []}}
    schema: user string, what string, n long, at long
  - event_time: at
    max_delay: 5m
  - pattern:
      - {begin: c, where: what = 'c'}
      - {followed_by: a, where: what = 'a', one_or_more: true, optional: true, greedy: true, until: n > 3}
      - {followed_by: d, where: what = 'd'}
    key_by: user
    measures: {many: count(a), ended: d.at}
    id: ended
  - sink: ended_out
    to: {collect: {name: ended}}
  - pattern:
      - {begin: c, where: what = 'c'}
      - {next: a, where: what = 'a', times: [0, 2], greedy: true}
    key_by: user
    input: in.event_time
    within: 10s
    measures: {many: count(a)}
    timed_out: {since: c.at}
    id: open
  - sink: open_out
    to: {collect: {name: open}}
  - sink: timed_out
    input: open.timed_out
    to: {collect: {name: timed_out}}
  - pattern:
      - {begin: a, where: what = 'a', times: {times: 2, within: 2s}}
    key_by: user
    input: in.event_time
    measures: {since: first(a.at)}
    id: near
  - sink: near_out
    to: {collect: {name: near}}
"""


def job():
    return ms.load_job(JOB)


def inputs():
    rows = {
        "u1": [("c", 0, 1000), ("a", 1, 2000), ("x", 0, 3000), ("a", 2, 4000), ("d", 0, 5000)],
        "u2": [("c", 0, 6000), ("a", 4, 7000), ("d", 0, 8000)],
        "u3": [("c", 0, 9000), ("a", 1, 10_000), ("a", 2, 11_000)],
        "u4": [("c", 0, 12_000), ("a", 1, 13_000), ("a", 4, 20_000), ("a", 2, 21_000), ("d", 0, 22_000)],
    }
    return {
        "in": [{"user": user, "what": what, "n": n, "at": at} for user, found in rows.items() for what, n, at in found]
    }


def expected():
    opened = {"u1": 3, "u2": 2, "u3": 3, "u4": 3}
    return {
        "ended_out": [
            {"user": "u1", "many": 2, "ended": 5000},
            {"user": "u2", "many": 0, "ended": 8000},
            {"user": "u4", "many": 1, "ended": 22_000},
        ],
        "open_out": [{"user": user, "many": many} for user, prefixes in opened.items() for many in range(prefixes)],
        "timed_out": [],
        "near_out": [{"user": "u3", "since": 10_000}, {"user": "u4", "since": 20_000}],
    }
