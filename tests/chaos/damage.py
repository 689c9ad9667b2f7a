"""Damage to the files of a checkpoint, and what must come of it."""

import shutil
from pathlib import Path

from tests.chaos.process import await_true
from tests.chaos.round import Anomaly

WHAT = ("head", "lease", "manifest", "state", "source log")
HOW = ("delete", "empty", "half", "flip", "digit", "older")


def _damage(file, how, random, older):
    content = file.read_bytes()
    match how:
        case "delete":
            file.unlink()
        case "empty":
            file.write_bytes(b"")
        case "half":
            file.write_bytes(content[: len(content) // 2])
        case "flip":
            place = random.randrange(len(content))
            flipped = content[place] ^ 1 << random.randrange(8)
            file.write_bytes(content[:place] + bytes([flipped]) + content[place + 1 :])
        case "digit":
            # The form stays right: only a checksum can tell.
            place = random.choice([at for at, byte in enumerate(content) if 48 <= byte < 58])
            digit = 48 + (content[place] - 48 + random.randrange(1, 10)) % 10
            file.write_bytes(content[:place] + bytes([digit]) + content[place + 1 :])
        case "older":
            file.write_bytes(older.read_bytes())


def targets(round_):
    """The files of the newest epoch, by what they are."""
    root, head = Path(round_.config["checkpoint"]), round_.head()
    files = (path for path in (root / "sources" / head.lineage).rglob("*") if path.is_file() and path.stat().st_size)
    return {
        "head": root / "millstream" / "head.json",
        "lease": root / "millstream" / "lease.json",
        "manifest": root / "millstream" / head.manifest,
        "state": max((root / "local" / head.lineage).glob(f"state-{head.epoch:012d}-*")),
        "source log": max(files),
    }


def damage_and_restart(round_, what, how):
    """Damage one file and start; where that is refused, put the file back."""
    file, root = targets(round_)[what], Path(round_.config["checkpoint"])
    older = _older_copy(round_, what, file)
    if how == "older" and older is None:
        round_.history.note("damage", "ok", what=what, how=how, code="there is no older one")
        return
    round_.feed(8)
    before, backup = round_.head(), root.with_name("backup")
    shutil.copytree(root, backup)
    _damage(file, how, round_.random, older)
    if not _goes_on(round_, before, what, how):
        _put_back(root, backup, with_lease=what == "lease")
    shutil.rmtree(backup)


def _goes_on(round_, before, what, how):
    """Whether the job recovers; otherwise it must have refused with a code."""
    process = round_.start()

    def has_passed():
        head = round_.head()
        return head is not None and head.epoch is not None and head.epoch >= before.epoch + 2

    await_true(lambda: process.code is not None or has_passed(), round_.patience, f"an end with the {how} {what}")
    code, end = process.code, process.end
    if code is None:
        if round_.head().lineage != before.lineage:
            raise Anomaly(f"{what} {how}: the job went on in another lineage")
        round_.killed(process, "kill after damage", what=what, how=how)
    elif code not in (10, 11, 12, 13) or not end.get("code"):
        raise Anomaly(f"{what} {how}: the job ended with {code}: {end}")
    round_.sometimes.add("damage recovered" if code is None else "damage refused")
    round_.history.note("damage", "ok" if code is None else "fail", what=what, how=how, code=end.get("code"))
    return code is None


def _older_copy(round_, what, file):
    """An older file of the same kind: of an earlier epoch, or as it was kept earlier in the round."""
    if what in ("manifest", "state", "source log"):
        before = (path for path in file.parent.iterdir() if path.name < file.name and path.name[0] != ".")
        return max(before, default=None)
    kept = round_.kept_copy(file)
    return kept if kept.exists() and kept.read_bytes() != file.read_bytes() else None


def _put_back(root, backup, *, with_lease):
    """Everything as it was before the damage. The lease stays, unless it was damaged: tokens may not go back."""
    lease = root / "millstream" / "lease.json"
    kept = None if with_lease else lease.read_bytes()
    shutil.rmtree(root)
    shutil.copytree(backup, root)
    if kept is not None:
        lease.write_bytes(kept)
