"""The table of legal moves, and that a move is made by one of those who try."""

import concurrent.futures

import pytest
from sqlalchemy import select
from tests.unit.control.conftest import NOON

from millstream.control.dispatcher.starting import StartOptions, start
from millstream.control.lifecycle.moves import Cause, move
from millstream.control.lifecycle.states import FINAL, MOVES, OPEN, OWNED, Status, is_legal
from millstream.control.metadata.tables.runs import execution, run_event
from millstream.control.refusals import StateConflict

BECAUSE = Cause("a test", "ada")


@pytest.fixture
def run(act, job):
    with act() as a:
        return start(a, "orders", StartOptions()).execution_id


def test_every_state_stands_in_the_table_and_is_reached():
    assert set(MOVES) == set(Status)
    assert set().union(*MOVES.values()) == set(Status) - {Status.CREATED}
    assert {Status.COMPLETED, Status.CANCELLED, Status.DEAD, Status.SUSPENDED} == FINAL
    assert OWNED < OPEN
    assert all(set(MOVES[status]) & (FINAL | {Status.FAILED}) for status in OWNED)


@pytest.mark.parametrize("before", Status)
def test_what_is_not_in_the_table_is_refused(act, run, before):
    for after in Status:
        if not is_legal(before, after):
            with act() as a, pytest.raises(StateConflict, match="CTL-013"):
                move(a.connection, run, before, after, BECAUSE, now=NOON)


def test_a_move_compares_status_and_token(metadata, act, run):
    with act() as a:
        assert not move(a.connection, run, Status.RUNNING, Status.FAILED, BECAUSE, now=NOON)
        assert not move(a.connection, run, Status.SCHEDULED, Status.INITIALIZING, BECAUSE, now=NOON, token=7)
        assert move(a.connection, run, Status.SCHEDULED, Status.INITIALIZING, BECAUSE, now=NOON, token=0)
    with metadata.begin() as connection:
        events = connection.execute(select(run_event).order_by(run_event.c.seq)).all()
    assert [(each.seq, each.from_status, each.to_status, each.cause, each.actor) for each in events] == [
        (1, None, "SCHEDULED", "submitted", "ada"),
        (2, "SCHEDULED", "INITIALIZING", "a test", "ada"),
    ]


def test_one_of_many_movers_moves(metadata, act, run):
    def cancel(_):
        with act() as a:
            return move(a.connection, run, Status.SCHEDULED, Status.CANCELLED, BECAUSE, now=NOON)

    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        assert sorted(pool.map(cancel, range(6))) == [False] * 5 + [True]
    with metadata.begin() as connection:
        assert connection.execute(select(execution.c.status, execution.c.end_time)).one() == ("CANCELLED", NOON)
