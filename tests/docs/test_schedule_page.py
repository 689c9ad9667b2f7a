"""The page about schedules: what it shows can be saved, and its tables name what there is."""

import json
import re
import typing

import pytest
import yaml
from tests.docs.pages import ROOT, blocks

from millstream.control.metadata.tables.schedules import schedule_fire
from millstream.control.schedule import arrivals, backfill, decide, hooks, webhook
from millstream.control.schedule.concurrency import Result
from millstream.control.schedule.spec import Misfire, Outcome, ScheduleSpec, schedule_spec

PAGE = ROOT / "docs/guides/schedule.md"
TEXT = PAGE.read_text()
SHOWN = [yaml.safe_load(block.text) for block in blocks(PAGE) if block.language == "yaml"]


@pytest.mark.parametrize("document", SHOWN, ids=lambda document: str(document["schedule"])[:60])
def test_what_is_shown_can_be_saved(document):
    assert document.keys() == {"schedule"}
    schedule_spec(document["schedule"])


def test_every_kind_and_every_field_is_shown():
    assert {document["schedule"]["type"] for document in SHOWN} == {"cron", "manual", "event", "dependency"}
    assert [
        name for name in ScheduleSpec.__struct_fields__ if f"`{name}`" not in TEXT and f"  {name}:" not in TEXT
    ] == []
    choices = [
        *typing.get_args(Misfire),
        *typing.get_args(Outcome),
        *typing.get_args(Result),
        *typing.get_args(backfill.Direction),
    ]
    assert [choice for choice in choices if f"`{choice}`" not in TEXT] == []


def test_the_backfill_that_is_shown_names_every_field():
    (shown,) = [json.loads(block.text) for block in blocks(PAGE) if block.language == "json"]
    assert shown.keys() == {"from", "to", "order", "max_parallel", "dry_run"}


def test_the_columns_of_a_fire_are_named():
    section = TEXT[TEXT.index("## Fires") :]
    assert {column.name for column in schedule_fire.columns} - set(re.findall(r"`(\w+)`", section)) == {"job_id"}


@pytest.mark.parametrize(
    ("sentence", "value"),
    [
        ("decided more than {} seconds late", int(decide.LATE.total_seconds())),
        ("at most the newest {}", decide.MOST_AT_ONCE),
        ("Of more than {} the newest", decide.MOST_LISTED),
        ("at most {} files match", f"{arrivals.MOST_FILES:,}".replace(",", " ")),
        ("and {} arrive at one look", arrivals.MOST_ARRIVALS),
        ("more than {} minutes from", {300: "five"}[int(webhook.FRESH.total_seconds())]),
        ("is refused for {}", {900: "a quarter of an hour"}[int(hooks.REMEMBERED.total_seconds())]),
        ("text of at most {} KiB", hooks.LONGEST_VALUE // 1024),
        ("At most {}\nintervals", f"{backfill.MOST_INTERVALS:,}".replace(",", " ")),
    ],
)
def test_numbers_are_those_of_the_code(sentence, value):
    assert sentence.format(value) in TEXT
