"""The book of subtasks: attempts of the last epochs, whatever comes in whichever order."""

from millstream.api.running.subtasks import SubtaskBook, SubtaskState

RUNNING, FINISHED, FAILED = SubtaskState.RUNNING, SubtaskState.FINISHED, SubtaskState.FAILED


def shown(book, epoch=None):
    found = {each["epoch"]: each["attempts"] for each in book.facts()}
    attempts = found[max(found) if epoch is None else epoch]
    return [(level, subtask, attempt, str(state)) for level, subtask, attempt, state, _, _ in attempts]


def test_levels_wait_run_and_finish():
    book = SubtaskBook()
    book.begin(0, [0, 2])
    book.note(0, 0, 0, RUNNING)
    assert shown(book) == [(0, 0, 0, "RUNNING"), (1, 0, 0, "SCHEDULED"), (1, 1, 0, "SCHEDULED")]
    for level, subtask in ((0, 0), (1, 0), (1, 1)):
        book.note(level, subtask, 0, FINISHED, seconds=1.5)
    assert {state for *_, state in shown(book)} == {"FINISHED"}
    assert [each[4] for each in book.facts()[0]["attempts"]] == [1.5] * 3


def test_a_later_attempt_says_that_the_one_before_has_failed():
    book = SubtaskBook()
    book.begin(0, [0, 1])
    book.note(1, 0, 0, RUNNING)
    book.note(1, 0, 1, RUNNING)
    assert shown(book) == [(1, 0, 0, "FAILED"), (1, 0, 1, "RUNNING")]
    book.note(1, 0, 1, FINISHED)
    book.note(1, 0, 1, RUNNING)  # seen late
    assert shown(book) == [(1, 0, 0, "FAILED"), (1, 0, 1, "FINISHED")]


def test_an_epoch_that_is_run_again_counts_its_attempts_on():
    book = SubtaskBook()
    book.begin(3, [0, 2])
    book.note(0, 0, 0, RUNNING)
    book.abort("the disk is full")
    assert shown(book) == [(0, 0, 0, "FAILED"), (1, 0, 0, "CANCELED"), (1, 1, 0, "CANCELED")]
    assert book.facts()[0]["attempts"][0][5] == "the disk is full"
    book.begin(3, [0, 2])
    book.note(0, 0, 0, FINISHED)
    assert shown(book)[:2] == [(0, 0, 0, "FAILED"), (0, 0, 1, "FINISHED")]
    assert (1, 0, 1, "SCHEDULED") in shown(book)


def test_what_runs_when_nothing_is_wrong_is_canceled():
    book = SubtaskBook()
    book.abort(None)
    book.begin(0, [1])
    book.note(0, 0, 0, RUNNING)
    book.abort(None)
    assert shown(book) == [(0, 0, 0, "CANCELED")]


def test_the_last_epochs_are_kept_and_changes_are_counted():
    book = SubtaskBook(kept=3)
    seen = set()
    for epoch in range(10):
        book.begin(epoch, [1])
        book.note(0, 0, 0, FINISHED)
        assert book.changes not in seen
        seen.add(book.changes)
    assert [each["epoch"] for each in book.facts()] == [7, 8, 9]
    before = book.changes
    book.note(0, 0, 0, FINISHED)
    assert book.changes == before
