"""The mode of a job follows from its sources, and one that its author said is checked against them."""

import pytest

from millstream.errors import InvalidPlan, InvalidStep
from millstream.model.mode import Mode, ModeOfSource, mode_named, mode_of_sources

FILES = ModeOfSource(step="files", mode=Mode.STREAMING, is_bounded=True)
TOPIC = ModeOfSource(step="topic", mode=Mode.STREAMING, is_bounded=False)
PAGES = ModeOfSource(step="pages", mode=Mode.BATCH_ROLLER, is_bounded=True)
POLLED = ModeOfSource(step="polled", mode=Mode.BATCH_ROLLER, is_bounded=False)
QUERY = ModeOfSource(step="query", mode=Mode.SQL_TASK, is_bounded=True)


@pytest.mark.parametrize(
    ("sources", "mode"),
    [
        ([FILES], Mode.STREAMING),
        ([TOPIC], Mode.STREAMING),
        ([PAGES], Mode.BATCH_ROLLER),
        ([QUERY], Mode.SQL_TASK),
        ([FILES, PAGES], Mode.BATCH_ROLLER),
        ([QUERY, FILES, QUERY], Mode.SQL_TASK),
        ([TOPIC, QUERY], Mode.STREAMING),
        ([POLLED], Mode.STREAMING),
        ([PAGES, POLLED], Mode.STREAMING),
        ([], Mode.STREAMING),
    ],
)
def test_the_mode_follows_from_the_sources(sources, mode):
    assert mode_of_sources(sources, None) is mode
    assert not sources or mode_of_sources(sources, mode) is mode


@pytest.mark.parametrize(
    ("sources", "said", "known"),
    [
        ([FILES], Mode.BATCH_ROLLER, "STREAMING"),
        ([TOPIC], Mode.SQL_TASK, "STREAMING"),
        ([PAGES], Mode.STREAMING, "BATCH_ROLLER"),
        ([PAGES], Mode.SQL_TASK, "BATCH_ROLLER"),
        ([TOPIC, PAGES], Mode.BATCH_ROLLER, "STREAMING"),
        ([POLLED], Mode.BATCH_ROLLER, "STREAMING"),
    ],
)
def test_sources_that_do_not_fit_the_mode_are_named(sources, said, known):
    with pytest.raises(InvalidPlan, match=f"do not fit mode {said}") as refused:
        mode_of_sources(sources, said)
    assert refused.value.code == "PLAN-043"
    assert refused.value.known == known
    assert all(repr(source.step) in refused.value.found for source in sources)


def test_sources_of_two_modes_need_a_word_of_the_author():
    with pytest.raises(InvalidPlan, match="several modes") as refused:
        mode_of_sources([PAGES, QUERY, FILES], None)
    assert refused.value.known == "BATCH_ROLLER, SQL_TASK"
    for said in Mode:
        assert mode_of_sources([PAGES, QUERY, FILES], said) is said


def test_an_unknown_mode_is_refused():
    with pytest.raises(InvalidStep, match="unknown mode") as refused:
        mode_named("batch")
    assert (refused.value.code, refused.value.known) == ("STEP-006", "BATCH_ROLLER, SQL_TASK, STREAMING")
