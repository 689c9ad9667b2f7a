"""What a stopped run on Spark left behind, every way to damage it, and what each damage must lead to."""

import contextlib
import json
import shutil
from collections import Counter

import pytest

import millstream as ms
from millstream.checkpoint import failpoint
from millstream.checkpoint.failpoint import VARIABLE
from millstream.errors import ExternalFailure
from millstream.spark.files.log_files import read_logs
from millstream.spark.files.logs import compare_logs

NEWEST = 3
ROWS = [{"user": f"u{i % 7}", "amount": i} for i in range(100)]


def job(folder):
    built = ms.Job("corrupt", rows_per_epoch=20, parallelism=2)
    rows = built.source("rows", ms.files(str(folder / "in"), format="json"), schema="user string, amount long")
    totals = rows.key_by("user").aggregate(total=ms.sum("amount"), n=ms.count(), emit="row", id="totals")
    totals.sink("totals", ms.files(str(folder / "totals"), format="json"))
    sizes = totals.key_by("n").aggregate(m=ms.count(), emit="row", id="sizes")
    sizes.sink("sizes", ms.files(str(folder / "sizes"), format="json"))
    return built


def run(folder):
    return job(folder).run(checkpoint=str(folder / "checkpoint"), master="local[2]")


def stopped_run(folder, failpoint, monkeypatch_env):
    (folder / "in").mkdir(parents=True)
    for part in range(5):
        text = "".join(json.dumps(row) + "\n" for row in ROWS[part * 20 : part * 20 + 20])
        (folder / "in" / f"{part}.json").write_text(text)
    monkeypatch_env.setenv(VARIABLE, failpoint)
    with pytest.raises(ExternalFailure, match="failpoint"):
        run(folder)
    monkeypatch_env.delenv(VARIABLE)


class Sample:
    """A stopped run that is put back in its place, because Spark's files and ours hold absolute paths."""

    def __init__(self, folder, kept):
        self.folder, self.kept = folder, kept
        (self.spark,) = (folder / "checkpoint" / "spark").iterdir()
        self.logs = read_logs(self.spark)
        newest = self.logs.offsets.get(NEWEST)
        self.digest = None if newest is None else newest.plan.digest

    def restored(self):
        shutil.rmtree(self.folder)
        shutil.copytree(self.kept, self.folder)

    def published(self):
        """What readers of the output see."""
        rows = [row for name in ("totals", "sizes") for row in ms.read_files(str(self.folder / name)).to_pylist()]
        return Counter(map(str, rows))


def sample(tmp_path_factory, name, failpoint_text):
    folder = tmp_path_factory.mktemp(name)
    with pytest.MonkeyPatch.context() as patch:
        failpoint.reset()
        stopped_run(folder / "work", failpoint_text, patch)
        failpoint.reset()
    shutil.copytree(folder / "work", folder / "kept")
    return Sample(folder / "work", folder / "kept")


def check_output(folder):
    totals, counts, expected, sizes = Counter(), Counter(), Counter(), Counter()
    for row in ROWS:
        totals[row["user"]] += row["amount"]
        counts[row["user"]] += 1
        expected[(row["user"], totals[row["user"]], counts[row["user"]])] += 1
        sizes[counts[row["user"]]] += 1
    written = ms.read_files(str(folder / "totals")).to_pylist()
    assert Counter((row["user"], row["total"], row["n"]) for row in written) == expected
    pairs = ms.read_files(str(folder / "sizes")).to_pylist()
    assert Counter((row["n"], row["m"]) for row in pairs) == Counter(
        (n, m) for n, times in sizes.items() for m in range(1, times + 1)
    )


# Mutations of one file.


def hidden(file):
    return file.with_name(f".{file.name}.crc")


def delete(file, older):
    """As `rm` does it: the hidden checksum stays."""
    file.unlink()


def delete_both(file, older):
    file.unlink()
    hidden(file).unlink()


def empty(file, older):
    file.write_bytes(b"")


def half(file, older):
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def half_unchecked(file, older):
    half(file, older)
    hidden(file).unlink(missing_ok=True)


def flip(file, older):
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 0x01
    file.write_bytes(content)


def replace_by_older(file, older):
    """The whole family of an older file under the newer name: every checksum fits."""
    for source, target in ((older, file), (hidden(older), hidden(file)), (crc(older), crc(file))):
        if source.exists():
            shutil.copy(source, target)
        else:
            target.unlink(missing_ok=True)


def crc(file):
    return file.with_name(f"{file.name}.crc")


MUTATIONS = {
    "delete": delete,
    "delete both": delete_both,
    "empty": empty,
    "half": half,
    "half unchecked": half_unchecked,
    "flip": flip,
    "older": replace_by_older,
}


def one(spark, pattern):
    found = sorted(file for file in spark.glob(pattern) if not file.name.startswith("."))
    assert found, pattern
    return found[0]


TARGETS = {
    "offsets/4": lambda spark: (spark / "offsets/4", spark / "offsets/3"),
    "offsets/3": lambda spark: (spark / "offsets/3", spark / "offsets/2"),
    "offsets/2": lambda spark: (spark / "offsets/2", spark / "offsets/1"),
    "offsets/1": lambda spark: (spark / "offsets/1", spark / "offsets/0"),
    "commits/3": lambda spark: (spark / "commits/3", spark / "commits/2"),
    "commits/2": lambda spark: (spark / "commits/2", spark / "commits/1"),
    "commits/1": lambda spark: (spark / "commits/1", spark / "commits/0"),
    "metadata": lambda spark: (spark / "metadata", None),
    "changelog 4": lambda spark: (named(spark, 0, 4), named(spark, 0, 3)),
    "changelog 4 of the first level": lambda spark: (named(spark, 1, 4), named(spark, 1, 3)),
    "changelog 3": lambda spark: (named(spark, 0, 3), named(spark, 0, 2)),
    "changelog 1": lambda spark: (named(spark, 0, 1), None),
    "checksum 4": lambda spark: (crc(named(spark, 0, 4)), crc(named(spark, 0, 3))),
    "snapshot": lambda spark: (one(spark, "state/0/0/1_*.zip"), None),
    "sst": lambda spark: (one(spark, "state/0/0/SSTs/*.sst"), None),
    "operator": lambda spark: (spark / "state/0/_metadata/v2/0", None),
    "schema": lambda spark: (one(spark, "state/1/_stateSchema/default/0_*"), None),
}


def named(spark, operator, version):
    """The changelog of a version as the commits name it; orphans of a failed attempt lie beside it."""
    uid = read_logs(spark).commits[version - 1].states[operator][0]
    return spark / "state" / str(operator) / "0" / f"{version}_{uid}.changelog"


ALL = ("delete", "delete both", "empty", "half", "half unchecked", "flip", "older")
GONE = ALL[:2]
HERE = ALL[:-1]
BROKEN = ALL[2:-1]


def rows(target, verdict, mutations=ALL):
    return {(target, mutation): verdict for mutation in mutations}


BEGUN = {
    **rows("offsets/4", "repair CKPT-051"),
    ("offsets/4", "delete"): "repair CKPT-057",
    ("offsets/4", "delete both"): "ok",
    **rows("offsets/3", "refuse CKPT-051"),
    **rows("offsets/3", "refuse CKPT-050", GONE),
    **rows("offsets/2", "refuse CKPT-051"),
    **rows("offsets/2", "refuse CKPT-057", GONE),
    **rows("offsets/1", "ok"),
    **rows("commits/3", "repair CKPT-052"),
    **rows("commits/3", "repair CKPT-057", GONE),
    ("commits/3", "older"): "repair CKPT-056",
    **rows("commits/2", "ok"),
    **rows("commits/1", "ok"),
    **rows("metadata", "repair CKPT-054", HERE),
    **rows("changelog 4", "repair CKPT-056"),
    **rows("changelog 4 of the first level", "repair CKPT-056"),
    **rows("changelog 3", "refuse CKPT-056"),
    **rows("changelog 1", "ok", HERE),
    **rows("checksum 4", "repair CKPT-056"),
    **rows("checksum 4", "ok", GONE),
    **rows("snapshot", "refuse CKPT-056", BROKEN),
    **rows("snapshot", "ok", GONE),
    **rows("sst", "refuse CKPT-056", HERE),
    **rows("operator", "refuse CKPT-058", HERE),
    **rows("schema", "refuse CKPT-058", HERE),
}
"""Epoch 4 was begun: what every mutation must lead to."""

SETTLED = {
    **{case: verdict for case, verdict in BEGUN.items() if case[0] != "offsets/4"},
    ("commits/3", "delete both"): "ok",
}
"""Epoch 4 was not begun: a missing commit 3 means that epoch 3 is replayed."""

UNCOMMITTED = {
    **{
        case: verdict
        for case, verdict in SETTLED.items()
        if case[0] in ("offsets/3", "offsets/2", "metadata", "operator")
    },
    **rows("commits/2", "refuse CKPT-052"),
    ("commits/2", "older"): "refuse CKPT-056",
    **rows("commits/1", "ok"),
    **rows("changelog 3", "refuse CKPT-056"),
    **rows("sst", "refuse CKPT-056", HERE),
}
"""Commit 3 was not written: epoch 3 is replayed from the state of commit 2, which must be whole."""

BASES = {"begun": BEGUN, "settled": SETTLED, "uncommitted": UNCOMMITTED}


def bring_to(spark, base):
    if base in ("settled", "uncommitted"):
        delete_both(spark / "offsets/4", None)
    if base == "uncommitted":
        delete_both(spark / "commits/3", None)


def verdict(spark, newest, digest):
    errors = [problem for problem in compare_logs(read_logs(spark), newest, digest) if problem.severity == "error"]
    if not errors:
        return "ok"
    way = "repair" if all(problem.repair is not None for problem in errors) else "refuse"
    return f"{way} {errors[0].code}"


@contextlib.contextmanager
def undone(file):
    """Puts a file and its checksums back."""
    family = [file, hidden(file), crc(file), hidden(crc(file))]
    contents = {member: member.read_bytes() for member in family if member.exists()}
    yield
    for member in family:
        member.unlink(missing_ok=True)
    for member, content in contents.items():
        member.write_bytes(content)
