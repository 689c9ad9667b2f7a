"""Filters of subjects: the server takes no two that fit the same message, and says so in words that help nobody."""

import pytest

import millstream as ms


def source(subjects):
    spec = ms.nats("orders", servers="localhost:4222", start="earliest", subjects=subjects)
    return ms.Job("read").source("orders", spec, schema="n long")


@pytest.mark.parametrize(
    "subjects",
    [["a.*", "a.b"], ["a.>", "a.b.c"], [">", "a"], ["a.*.c", "a.b.*"], ["*.b", "a.>"], ["a", "a"]],
)
def test_subjects_that_fit_the_same_message_are_refused(subjects):
    with pytest.raises(ms.MillstreamError, match=r"CONN-005.*step 'orders'.*'subjects'.*another one fits"):
        source(subjects)


@pytest.mark.parametrize("subjects", [["a.b", "a.c"], ["a.*", "a.*.c"], ["a.>", "b.>"], ["a", "a.>"], ["a.b.*", "a.*"]])
def test_subjects_that_keep_apart_are_taken(subjects):
    source(subjects)
