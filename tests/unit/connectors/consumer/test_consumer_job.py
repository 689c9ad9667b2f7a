"""Jobs whose sink is a function: what it is called with, when it is called again, and what is said when it fails."""

import sqlite3
import sys

import pytest

import millstream as ms
from millstream.errors import ExternalFailure, InvalidPlan, InvalidStep, StepFailed

ROWS = [{"n": number} for number in range(20)]


def run(function, folder, *, guarantee="at_least_once", **options):
    job = ms.Job("giving", guarantee=guarantee, rows_per_epoch=8)
    stream = job.source("in", ms.memory(ROWS), schema="n long")
    stream.sink("out", ms.consumer(function, **options))
    return job.run(local=True, checkpoint=folder / "checkpoint")


class Taken:
    """Keeps what a function was given."""

    def __init__(self, fails_at=None, problem=None):
        self.calls, self._fails_at, self._problem = [], fails_at, problem

    def write(self, batch, ctx):
        if len(self.calls) == self._fails_at and self._problem is not None:
            problem, self._problem = self._problem, None
            raise problem
        self.calls.append((ctx, batch.to_pylist()))

    def rows(self):
        return [row for _, rows in self.calls for row in rows]


def test_a_function_gets_every_row_once(tmp_path):
    taken = Taken()
    run(taken.write, tmp_path)
    assert sorted(row["n"] for row in taken.rows()) == list(range(20))
    assert list((tmp_path / "checkpoint" / "staging").rglob("*.arrow")) == []


def test_batches_are_cut_and_told_apart(tmp_path):
    taken = Taken()
    run(taken.write, tmp_path, batch_rows=3)
    assert max(len(rows) for _, rows in taken.calls) == 3
    keys = [told.key for told, _ in taken.calls]
    assert len(set(keys)) == len(keys)
    told = taken.calls[0][0]
    assert (told.job, told.step, told.epoch, told.task, told.sequence) == ("giving", "out", 0, "0-0", 0)
    assert told.key == f"giving/{told.lineage}/out/0/0-0/0"


@pytest.mark.parametrize("fails_at", range(7))
def test_what_comes_again_bears_the_same_key(tmp_path, fails_at):
    taken = Taken(fails_at, ConnectionError("nobody answers"))
    with pytest.raises(ExternalFailure, match="nobody answers") as failed:
        run(taken.write, tmp_path, guarantee="effectively_once", idempotent=True, batch_rows=3)
    assert (failed.value.code, failed.value.step) == ("CONSUMER-003", "out")
    run(taken.write, tmp_path, guarantee="effectively_once", idempotent=True, batch_rows=3)
    by_key = {}
    for told, rows in taken.calls:
        assert by_key.setdefault(told.key, rows) == rows
    assert sorted(row["n"] for rows in by_key.values() for row in rows) == list(range(20))


def test_an_epoch_that_is_marked_is_not_given_again(tmp_path):
    taken = Taken()
    run(taken.write, tmp_path)
    before = len(taken.calls)
    run(taken.write, tmp_path)
    assert len(taken.calls) == before


def fails(batch, ctx):
    raise KeyError("no such thing")


def test_a_function_that_fails_names_the_step_and_the_line(tmp_path):
    with pytest.raises(StepFailed) as failed:
        run(fails, tmp_path)
    assert (failed.value.code, failed.value.step) == ("CONSUMER-003", "out")
    line = fails.__code__.co_firstlineno + 1
    assert f"KeyError: 'no such thing' at test_consumer_job.py:{line} in fails" in failed.value.message


def test_a_function_is_named_in_a_job_file(tmp_path, monkeypatch):
    (tmp_path / "consumer_functions.py").write_text(
        "taken = []\ndef write(batch, ctx):\n    taken.extend(batch.to_pylist())\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "job.yaml").write_text(
        "job: filed\nguarantee: at_least_once\nsteps:\n"
        "  - source: in\n    from: {memory: {rows: [{n: 1}, {n: 2}]}}\n    schema: n long\n"
        "  - sink: out\n    to: {consumer: {function: 'consumer_functions:write'}}\n"
    )
    ms.load_job(tmp_path / "job.yaml").run(local=True)
    import consumer_functions

    assert consumer_functions.taken == [{"n": 1}, {"n": 2}]
    sys.modules.pop("consumer_functions")


# Promises and guarantees.


def write(batch, ctx):
    """Nothing."""


@pytest.mark.parametrize(
    ("options", "weakest_refused"),
    [({}, "effectively_once"), ({"idempotent": True}, "exactly_once")],
)
def test_a_function_serves_the_guarantees_that_it_promises(tmp_path, options, weakest_refused):
    with pytest.raises(InvalidPlan, match="PLAN-040"):
        run(write, tmp_path, guarantee=weakest_refused, **options)
    run(write, tmp_path, guarantee="effectively_once" if options else "at_least_once", **options)


@pytest.mark.parametrize(
    ("options", "code", "text"),
    [
        ({"function": lambda batch: None}, "CONSUMER-001", "def write(batch, ctx)"),
        ({"function": lambda: None, "transactional": True}, "CONSUMER-001", "def write(batches, ctx)"),
        ({"function": write, "transactional": True, "idempotent": True}, "CONSUMER-002", "not both"),
        ({"function": write, "batch_rows": 0}, "CONN-005", "above zero"),
        ({"function": "nowhere:at_all"}, "CONN-005", "No module named 'nowhere'"),
    ],
)
def test_what_does_not_fit_is_refused_when_the_step_is_built(options, code, text):
    stream = ms.Job("refused").source("in", ms.memory(ROWS), schema="n long")
    with pytest.raises(InvalidStep) as refused:
        stream.sink("out", ms.consumer(**options))
    assert (refused.value.code, refused.value.step) == (code, "out")
    assert text in str(refused.value)


# Transactions.


class Shop:
    """A database that keeps rows and marks in one transaction."""

    def __init__(self, folder, **faults):
        self._path, self.faults = folder / "shop.db", faults
        self._do("CREATE TABLE rows (n INTEGER)", "CREATE TABLE marks (sink TEXT PRIMARY KEY, mark TEXT)")

    def _do(self, *statements):
        database = sqlite3.connect(self._path, isolation_level=None)
        for statement in statements:
            database.execute(statement)
        return database

    def rows(self):
        database = self._do()
        found = [n for (n,) in database.execute("SELECT n FROM rows ORDER BY n")]
        database.close()
        return found

    def _is_lost(self, fault, ctx):
        return self.faults.get(fault) == ctx.epoch and self.faults.pop(fault, None) is not None

    def write(self, batches, ctx):
        database = self._do("BEGIN IMMEDIATE")
        try:
            stored = database.execute("SELECT mark FROM marks WHERE sink = ?", [ctx.sink]).fetchone()
            if ctx.is_due(None if stored is None else stored[0]):
                for batch in batches:
                    database.executemany("INSERT INTO rows VALUES (?)", [[row["n"]] for row in batch.to_pylist()])
                database.execute("INSERT OR REPLACE INTO marks VALUES (?, ?)", [ctx.sink, ctx.mark])
            if self._is_lost("lost_before", ctx):
                raise ConnectionError("before the commit")
            database.execute("COMMIT")
        finally:
            database.close()
        if self._is_lost("lost_behind", ctx):
            raise ConnectionError("behind the commit")


@pytest.mark.parametrize("fault", ["lost_before", "lost_behind"])
@pytest.mark.parametrize("epoch", [0, 1, 2])
def test_a_transaction_is_written_once_wherever_it_breaks(tmp_path, fault, epoch):
    shop = Shop(tmp_path, **{fault: epoch})
    with pytest.raises(ExternalFailure, match="the commit"):
        run(shop.write, tmp_path, guarantee="exactly_once", transactional=True)
    run(shop.write, tmp_path, guarantee="exactly_once", transactional=True)
    assert shop.rows() == list(range(20))


def test_a_transaction_that_the_function_tries_again_has_its_rows_again(tmp_path):
    shop = Shop(tmp_path, lost_before=1)

    def stubborn(batches, ctx):
        try:
            shop.write(batches, ctx)
        except ConnectionError:
            shop.write(batches, ctx)

    run(stubborn, tmp_path, guarantee="exactly_once", transactional=True)
    assert shop.rows() == list(range(20))


def _asks_nothing(batches, ctx):
    list(batches)


def _keeps_nothing(batches, ctx):
    ctx.is_due(None)
    list(batches)


def _keeps_too_early(batches, ctx):
    if ctx.is_due(None):
        ctx.mark


def _forgets(batches, ctx):
    if ctx.is_due(None):
        list(batches)
        ctx.mark


def _makes_up(batches, ctx):
    ctx.is_due("made up")


@pytest.mark.parametrize(
    ("function", "code"),
    [
        (_asks_nothing, "CONSUMER-004"),
        (_keeps_nothing, "CONSUMER-004"),
        (_keeps_too_early, "CONSUMER-004"),
        (_makes_up, "CONSUMER-005"),
        (_forgets, "CONSUMER-006"),
    ],
)
def test_a_broken_promise_is_noticed(tmp_path, function, code):
    with pytest.raises(ms.MillstreamError) as failed:
        run(function, tmp_path, guarantee="exactly_once", transactional=True)
    assert (failed.value.code, failed.value.step) == (code, "out")
