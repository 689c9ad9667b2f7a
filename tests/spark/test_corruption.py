"""A damaged checkpoint is refused with a code, repaired, or recovered; its output is never wrong.

One run is stopped between two epochs; every case works on a copy of what it left behind. The table is judged on the real
files without Spark; the cases below it are resumed on Spark.
"""

import shutil

import pytest
from tests.spark.corruption import (
    BASES,
    MUTATIONS,
    NEWEST,
    TARGETS,
    bring_to,
    check_output,
    delete_both,
    run,
    sample,
    undone,
    verdict,
)

from millstream.errors import CheckpointRefused
from millstream.spark.files.log_files import read_logs
from millstream.spark.files.log_repair import repair
from millstream.spark.files.logs import compare_logs, refuse_damaged

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def begun(spark, tmp_path_factory):
    """Epochs 0 to 3 are committed, epoch 4 was begun and is not durable."""
    return sample(tmp_path_factory, "begun", "staged:5:raise")


@pytest.fixture(scope="module")
def first(spark, tmp_path_factory):
    """Epoch 0 was begun, nothing is durable."""
    return sample(tmp_path_factory, "first", "staged:1:raise")


@pytest.mark.parametrize("base", BASES)
def test_every_mutation_of_every_file_has_its_verdict(begun, base):
    begun.restored()
    targets = {target: TARGETS[target](begun.spark) for target, _ in BASES[base]}
    bring_to(begun.spark, base)
    wrong = {}
    for (target, mutation), expected in BASES[base].items():
        file, older = targets[target]
        with undone(file):
            MUTATIONS[mutation](file, older)
            found = verdict(begun.spark, NEWEST, begun.digest)
        if found != expected:
            wrong[(target, mutation)] = (found, expected)
    assert wrong == {}


@pytest.mark.parametrize("base", BASES)
def test_a_whole_checkpoint_has_no_problem(begun, base):
    begun.restored()
    bring_to(begun.spark, base)
    assert compare_logs(read_logs(begun.spark), NEWEST, begun.digest) == []


# Whole folders, and manifests that do not fit.


def without_logs(spark):
    shutil.rmtree(spark / "offsets")
    shutil.rmtree(spark / "commits")


def without_state(spark):
    shutil.rmtree(spark / "state")


def without_commits(spark):
    shutil.rmtree(spark / "commits")


def older_folder(spark):
    for name in ("offsets/4", "offsets/3", "commits/3"):
        (spark / name).unlink()


FOLDERS = {
    "the folder is gone": (shutil.rmtree, "refuse CKPT-050"),
    "both logs are gone": (without_logs, "refuse CKPT-050"),
    "offsets are gone": (lambda spark: shutil.rmtree(spark / "offsets"), "refuse CKPT-050"),
    "commits are gone": (without_commits, "refuse CKPT-052"),
    "state is gone": (without_state, "refuse CKPT-056"),
    "an older copy": (older_folder, "refuse CKPT-050"),
}


@pytest.mark.parametrize("case", FOLDERS)
def test_lost_and_older_folders_are_refused(begun, case):
    begun.restored()
    mutate, expected = FOLDERS[case]
    mutate(begun.spark)
    assert verdict(begun.spark, NEWEST, begun.digest) == expected


@pytest.mark.parametrize(("newest", "code"), [(None, "CKPT-050"), (1, "CKPT-050"), (2, "CKPT-050"), (9, "CKPT-050")])
def test_manifests_that_do_not_fit_the_log_are_refused(begun, newest, code):
    begun.restored()
    assert verdict(begun.spark, newest, begun.digest) == f"refuse {code}"


def test_another_plan_under_the_same_number_is_refused(begun):
    begun.restored()
    with pytest.raises(CheckpointRefused, match="another plan") as refused:
        refuse_damaged(begun.spark, NEWEST, "0" * 64)
    assert refused.value.code == "CKPT-053"


# Resumed on Spark.

RESUMED = [
    ("begun", None, None),
    ("settled", None, None),
    ("begun", "offsets/1", "empty"),
    ("begun", "commits/2", "older"),
    ("settled", "commits/3", "delete both"),
    ("begun", "checksum 4", "delete"),
    ("begun", "snapshot", "delete"),
    ("settled", "changelog 1", "flip"),
]


@pytest.mark.parametrize(("base", "target", "mutation"), RESUMED)
def test_what_is_allowed_resumes_with_the_right_output(begun, base, target, mutation):
    begun.restored()
    if target is not None:
        file, older = TARGETS[target](begun.spark)
        bring_to(begun.spark, base)
        MUTATIONS[mutation](file, older)
    else:
        bring_to(begun.spark, base)
    run(begun.folder)
    check_output(begun.folder)


REFUSED = [
    ("begun", "offsets/3", "delete both"),
    ("begun", "offsets/3", "half unchecked"),
    ("settled", "offsets/3", "older"),
    ("begun", "offsets/2", "delete both"),
    ("uncommitted", "commits/2", "empty"),
    ("begun", "changelog 3", "flip"),
    ("begun", "snapshot", "half"),
    ("begun", "sst", "delete"),
    ("settled", "operator", "delete"),
    ("begun", "schema", "empty"),
]


@pytest.mark.parametrize(("base", "target", "mutation"), REFUSED)
def test_what_cannot_be_repaired_is_refused_and_left_as_it_is(begun, base, target, mutation):
    begun.restored()
    file, older = TARGETS[target](begun.spark)
    bring_to(begun.spark, base)
    MUTATIONS[mutation](file, older)
    before = begun.published()
    for attempt in (run, lambda folder: repair(begun.spark, NEWEST, begun.digest)):
        with pytest.raises(CheckpointRefused) as refused:
            attempt(begun.folder)
        assert f"refuse {refused.value.code}" == BASES[base][(target, mutation)]
        assert "savepoint" in refused.value.hint
    assert begun.published() == before
    assert not list(begun.spark.glob("damaged-*"))


REPAIRED = [
    ("begun", "offsets/4", "delete"),
    ("begun", "offsets/4", "half"),
    ("begun", "commits/3", "delete"),
    ("settled", "commits/3", "delete"),
    ("begun", "commits/3", "empty"),
    ("settled", "commits/3", "half unchecked"),
    ("begun", "commits/3", "older"),
    ("begun", "metadata", "delete"),
    ("begun", "changelog 4", "delete"),
    ("settled", "changelog 4 of the first level", "flip"),
    ("begun", "changelog 4", "older"),
]


@pytest.mark.parametrize(("base", "target", "mutation"), REPAIRED)
def test_what_is_refused_with_a_repair_resumes_once_repaired(begun, base, target, mutation):
    begun.restored()
    file, older = TARGETS[target](begun.spark)
    bring_to(begun.spark, base)
    MUTATIONS[mutation](file, older)
    before = begun.published()
    with pytest.raises(CheckpointRefused) as refused:
        run(begun.folder)
    assert f"repair {refused.value.code}" == BASES[base][(target, mutation)]
    assert "doctor" in refused.value.hint
    assert len(repair(begun.spark, NEWEST, begun.digest)) >= 1
    assert begun.published() == before
    run(begun.folder)
    check_output(begun.folder)


def test_an_empty_identity_is_replaced(begun):
    begun.restored()
    (begun.spark / "metadata").write_text("{}")
    assert verdict(begun.spark, NEWEST, begun.digest) == "repair CKPT-054"
    repair(begun.spark, NEWEST, begun.digest)
    run(begun.folder)
    check_output(begun.folder)


FIRST = {
    "torn offset": (lambda spark: (spark / "offsets/0").write_bytes(b""), "repair CKPT-051"),
    "lost offset": (lambda spark: delete_both(spark / "offsets/0", None), "repair CKPT-057"),
    "lost identity": (lambda spark: (spark / "metadata").unlink(), "repair CKPT-054"),
}


@pytest.mark.parametrize("case", FIRST)
def test_before_the_first_manifest_everything_can_begin_again(first, case):
    first.restored()
    mutate, expected = FIRST[case]
    mutate(first.spark)
    assert verdict(first.spark, None, None) == expected
    repair(first.spark, None, None)
    run(first.folder)
    check_output(first.folder)
