"""A pattern from a job file: a group, an optional stage, and a reminder where nothing follows in time."""

import millstream as ms

JOB = """
job: pattern-absence
steps:
  - source: in
    from: {memory: {rows: []}}
    schema: user string, what string, at long
  - event_time: at
    max_delay: 5m
  - pattern:
      - begin:
          - begin: look
            where: what = 'look'
          - next: add
            where: what = 'add'
        times: 2
      - followed_by: hint
        where: what = 'hint'
        optional: true
      - next: leave
        where: what = 'leave'
    key_by: user
    after_match: skip_past_last_event
    measures: {looks: count(look), hints: count(hint), left: leave.at}
    id: left
  - sink: left_out
    to: {collect: {name: left}}
  - pattern:
      - begin: add
        where: what = 'add'
      - not_followed_by: buy
        where: what = 'buy'
    key_by: user
    input: in.event_time
    within: 10s
    measures: {since: add.at}
    id: forgot
  - sink: forgot_out
    to: {collect: {name: forgot}}
"""


def job():
    return ms.load_job(JOB)
