"""Which secrets a job names, by a walk through what it is written as."""

import millstream as ms
from millstream.model.secret import mentioned
from millstream.plan.serialize import to_json


def test_names_are_found_wherever_they_stand():
    document = {
        "steps": [{"url": "postgresql://a:${secret:PG}@h/d", "headers": {"x": ["Bearer ${secret:API}${secret:B_2}"]}}],
        "${secret:IN_A_KEY}": 1,
        "sink": {"password_env": "SHOP_PASSWORD", "other": "OTHER"},
        "none": {"password_env": None},
        "not": ["${secret:}", "${secret:1}", "$ {secret:X}", "${param:P}", "secret:Y", None, 3, True],
    }
    assert mentioned(document) == {"PG", "API", "B_2", "IN_A_KEY", "SHOP_PASSWORD"}
    deep = "${secret:DEEP}"
    for _ in range(100_000):
        deep = [deep]
    assert mentioned(deep) == {"DEEP"}


def test_the_compiled_plan_of_a_program_names_its_secrets():
    job = ms.Job("program")
    rows = job.source("rows", ms.memory([{"a": 1}]), schema="a long")
    rows.sink("out", ms.jdbc("postgresql://app:${secret:PG}@db/shop", table="t"))
    rows.sink("copy", ms.jdbc("postgresql://app@db/shop", table="u", password_env="SHOP"))
    assert mentioned(to_json(job.compile(), portable=False)) == {"PG", "SHOP"}
