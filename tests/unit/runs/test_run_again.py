"""A bounded job is run again: where each run begins, what a retry is, and that nothing is lost or doubled when one is killed."""

from collections import Counter

import pytest
from tests.unit.runs.inputs import SCHEMA, FilesInput

import millstream as ms
from millstream.connectors.collect.sink import clear, collected
from millstream.errors import CheckpointRefused, InvalidStep
from millstream.inspect.checkpoint import open_view

STARTING = ("leased:1", "lineage_raised:1", "begun:1", "staged:1", "prepared:1", "manifest_written:1", "durable:1")
GOING = ("published:1", "begun:2", "staged:2", "manifest_written:2", "durable:2", "published:2")
CARRIED = ("savepoint_files:1", "savepoint_written:1")
KILLS = [
    *((carry, where) for carry in ("nothing", "position", "state") for where in (*STARTING, *GOING)),
    *((carry, where) for carry in ("position", "state") for where in CARRIED),
]
FEW = [("nothing", "durable:1"), ("position", "lineage_raised:1"), ("position", "published:1"), ("state", "staged:2")]


@pytest.fixture
def place(tmp_path):
    clear("totals")
    return tmp_path


def job_of(data, place, **options):
    job = ms.Job("again", rows_per_epoch=4, mode=data.mode, **options)
    rows = job.source("rows", data.connector(), schema=SCHEMA)
    rows.sink("all", ms.files(place / "out", format="json"))
    rows.key_by("k").aggregate(total=ms.sum("n"), emit="end", id="totals").sink("totals", ms.collect("totals"))
    return job


def run(data, place, carry, **options):
    return job_of(data, place, carry=carry).run(local=True, checkpoint=place / "checkpoint", **options)


def killed(data, place, carry, failpoints, where, **options):
    """A run that breaks off there; whether it came that far."""
    failpoints(f"{where}:raise")
    try:
        run(data, place, carry, **options)
    except ms.MillstreamError as problem:
        assert problem.code == "TEST-FAILPOINT"
        return True
    finally:
        failpoints("")
    return False


def written(place):
    return Counter(tuple(row.values()) for row in ms.read_files(place / "out").to_pylist())


def counted(rows):
    return Counter(tuple(row.values()) for row in rows)


def last_totals():
    """The totals of the newest run."""
    return {row["k"]: row["total"] for row in collected("totals")}


def totals(rows):
    sums = Counter()
    for row in rows:
        sums[row["k"]] += row["n"]
    return dict(sums)


def test_without_a_word_a_complete_job_has_nothing_left_to_run(data, place):
    first = run(data, place, None)
    data.add(3)
    again = run(data, place, None)
    assert (first.run, again.run, again.epochs, again.resumed_from) == (1, 1, 0, first.epochs - 1)
    assert sum(written(place).values()) == 6


def test_carrying_nothing_begins_anew(data, place):
    expected = Counter()
    for number in (1, 2, 3):
        clear("totals")
        result = run(data, place, "nothing")
        expected += counted(data.all)
        assert (result.run, result.resumed_from, result.rows_in) == (number, None, len(data.rows))
        assert last_totals() == totals(data.all)
        assert written(place) == expected
        data.add(3)
        data.change(1, number + 1)


def test_carrying_the_position_reads_what_is_new(data, place):
    fresh, expected = data.all, Counter()
    for number in (1, 2, 3):
        clear("totals")
        result = run(data, place, "position")
        expected += counted(fresh)
        assert (result.run, result.rows_in) == (number, len(fresh))
        assert last_totals() == totals(fresh)
        assert written(place) == expected
        data.change(number)
        fresh = data.add(number)


def test_carrying_the_state_goes_on_with_it(data, place):
    read, fresh = [], data.all
    for number in (1, 2, 3):
        clear("totals")
        result = run(data, place, "state")
        read += fresh
        assert (result.run, result.rows_in) == (number, len(fresh))
        assert last_totals() == totals(read)
        assert written(place) == counted(read)
        data.change(number)
        fresh = data.add(number)


def test_a_run_without_anything_new_is_complete_all_the_same(data, place):
    for carry in ("position", "state"):
        run(data, place, carry)
        result = run(data, place, carry)
        assert (result.rows_in, result.ended) == (0, "finished")
    assert written(place) == counted(data.all)


@pytest.mark.parametrize(("carry", "where"), KILLS)
def test_a_run_that_is_killed_is_resumed_and_not_begun_again(place, carry, where, failpoints):
    check_resumed(FilesInput(place / "files"), place, carry, where, failpoints)


@pytest.mark.parametrize(("carry", "where"), FEW)
def test_so_it_is_in_every_mode(data, place, carry, where, failpoints):
    check_resumed(data, place, carry, where, failpoints)


def check_resumed(data, place, carry, where, failpoints):
    run(data, place, carry)
    before = written(place)
    fresh = data.add(5)
    assert killed(data, place, carry, failpoints, where)
    result = run(data, place, carry)
    # A run that had published everything when it was killed is complete: this start is the next one.
    rounds = result.run - 1
    assert rounds in (1, 2)
    read = Counter({row: times * rounds for row, times in counted(data.all).items()})
    assert written(place) == before + (read if carry == "nothing" else counted(fresh))
    with open_view(place / "checkpoint", None, read_only=True) as view:
        assert view.manifest().kind == "terminal"
        assert view.manifest().run.number == result.run


@pytest.mark.parametrize("where", ["durable", "published"])
@pytest.mark.parametrize("epoch", ["first", "last"])
def test_a_retry_of_the_same_name_belongs_to_its_run(data, place, where, epoch, failpoints):
    run(data, place, "nothing", run_id="monday")
    assert run(data, place, "nothing", run_id="monday").epochs == 0
    data.add(4)
    nth = 1 if epoch == "first" else job_of(data, place / "tried").run(local=True).epochs
    assert killed(data, place, "nothing", failpoints, f"{where}:{nth}", run_id="tuesday")
    result = run(data, place, "nothing", run_id="tuesday")
    assert (result.run, result.run_id) == (2, "tuesday")
    assert run(data, place, "nothing", run_id="tuesday").epochs == 0
    assert written(place) == counted(data.all) + counted(data.all[:6])


def test_a_start_of_another_name_resumes_a_run_that_is_not_complete(data, place, failpoints):
    killed(data, place, "nothing", failpoints, "published:1", run_id="monday")
    result = run(data, place, "nothing", run_id="tuesday")
    assert (result.run, result.run_id) == (1, "monday")
    assert written(place) == counted(data.all)


def test_a_failure_that_is_got_over_begins_no_other_run(data, place, failpoints):
    run(data, place, "nothing")
    failpoints("durable:2:raise,sink_published:9:raise,durable:4:raise")
    policy = ms.EpochPolicy(tolerated_failures=3)
    result = job_of(data, place, carry="nothing").run(local=True, checkpoint=place / "checkpoint", epochs=policy)
    failpoints("")
    assert result.failures >= 1
    assert result.run == 2
    assert written(place) == counted(data.all) + counted(data.all)


def test_the_words_of_a_start_count_before_those_of_the_job(place):
    data = FilesInput(place / "files")
    run(data, place, "state")
    data.add(2)
    result = job_of(data, place, carry="state").run(local=True, checkpoint=place / "checkpoint", carry="nothing")
    assert (result.run, result.rows_in) == (2, 8)
    for wrong in ("all", 1, True):
        with pytest.raises(InvalidStep, match="takes over from the one before") as refused:
            job_of(data, place).run(local=True, carry=wrong)
        assert refused.value.code == "RUN-025"
        with pytest.raises(InvalidStep):
            job_of(data, place, carry=wrong)
    for wrong in ("", "a\nb", "x" * 201, 5):
        with pytest.raises(InvalidStep, match="does not name a run"):
            job_of(data, place).run(local=True, run_id=wrong)


def test_runs_keep_what_they_need_and_no_more(data, place):
    checkpoint = place / "checkpoint"
    for _ in range(4):
        run(data, place, "state")
        data.add(1)
    for folder in ("local", "sources"):
        assert len(list((checkpoint / folder).iterdir())) == 2, "the last run, and the one before it"
    assert len(list((checkpoint / "carried").iterdir())) == 1
    lineages = [len(list(folder.glob("*.json"))) for folder in (checkpoint / "millstream/manifests").iterdir()]
    assert sorted(lineages)[:2] == [1, 1], "the last manifest of every run is its history"


def test_every_run_may_have_parameters_of_its_own(place):
    data = FilesInput(place / "files")

    def started(name, **options):
        job = ms.Job("again", params={"k": "string"}, carry=options.pop("carry", None))
        rows = job.source("rows", data.connector(), schema=SCHEMA)
        rows.filter("k = :k").sink("all", ms.files(place / "out", format="json"))
        return job.run(local=True, checkpoint=place / "checkpoint", params={"k": name}, **options)

    started("a", carry="nothing")
    assert started("b", carry="nothing").run == 2
    with open_view(place / "checkpoint", None, read_only=True) as view:
        assert view.manifest().run.params == {"k": "b"}
    assert started("b").epochs == 0
    with pytest.raises(CheckpointRefused, match="of other parameters is complete") as refused:
        started("c")
    assert (refused.value.code, refused.value.found, refused.value.known) == ("CKPT-066", "k=c", "k=b")
    assert {row["k"] for row in ms.read_files(place / "out").to_pylist()} == {"a", "b"}


def test_parameters_count_before_the_first_epoch_too(place, failpoints):
    data = FilesInput(place / "files")
    job = ms.Job("again", params={"k": "string"})
    job.source("rows", data.connector(), schema=SCHEMA).filter("k = :k").sink("all", ms.files(place / "out"))
    failpoints("begun:1:raise")
    with pytest.raises(ms.MillstreamError, match="failpoint"):
        job.run(local=True, checkpoint=place / "checkpoint", params={"k": "a"})
    failpoints("")
    with pytest.raises(CheckpointRefused, match="had other parameters"):
        job.run(local=True, checkpoint=place / "checkpoint", params={"k": "b"})
