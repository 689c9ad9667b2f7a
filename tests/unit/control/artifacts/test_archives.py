"""No archive of the corpus is kept or leaves anything behind; good ones are unpacked as they are."""

import io
import os
import random
import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor

import pytest
from crafted_archives import BAD, DUPLICATES, FOLDER, GOOD, NAMES, Part, archive, named, plain, wheel

from millstream.control.artifacts import limits
from millstream.control.artifacts.checks import check_archive, files_of, kind_of
from millstream.control.artifacts.limits import ArtifactRefused
from millstream.control.artifacts.names import checked_parts
from millstream.control.artifacts.store import ArtifactStore
from millstream.control.artifacts.unpack import unpack
from millstream.control.refusals import UnknownName
from millstream.errors import MillstreamError


@pytest.fixture
def store(tmp_path):
    return ArtifactStore(tmp_path / "artifacts")


def kept(store, content, name="code.zip"):
    with store.receive(name) as upload:
        for start in range(0, len(content), 1000):
            upload.write(content[start : start + 1000])
        return store.keep(upload)


def everything(folder):
    return sorted((str(path.relative_to(folder)), path.read_text()) for path in folder.rglob("*") if not path.is_dir())


def test_the_corpus_is_large():
    assert len(BAD) >= 120
    assert len(NAMES) >= 40
    assert len(DUPLICATES) >= 15


@pytest.mark.parametrize("case", BAD)
def test_a_bad_archive_is_refused_and_leaves_nothing(store, tmp_path, case):
    content, code = BAD[case]
    with pytest.raises(ArtifactRefused) as refused:
        kept(store, content)
    assert refused.value.code == code
    assert refused.value.hint
    assert refused.value.message.isprintable()
    assert str(refused.value).isprintable(), "no name of an archive plays with the terminal"
    assert [path.name for path in tmp_path.rglob("*")] == ["artifacts", "incoming"]


@pytest.mark.parametrize("case", [case for case in BAD if BAD[case][1] in {"CTL-351", "CTL-352", "CTL-353"}])
def test_a_bad_archive_that_came_into_the_store_is_not_unpacked_either(store, tmp_path, case, monkeypatch):
    monkeypatch.setattr("millstream.control.artifacts.store.check_archive", lambda file, kind: None)
    sha256 = kept(store, BAD[case][0])
    with pytest.raises(ArtifactRefused, match=BAD[case][1]):
        unpack(store, sha256, tmp_path / "inner" / "code")
    assert not (tmp_path / "inner").exists()


def test_a_bomb_is_not_unpacked_beyond_its_limit(store, tmp_path, monkeypatch):
    made = []
    monkeypatch.setattr("millstream.control.artifacts.store.check_archive", lambda file, kind: None)
    real = limits.UnpackBudget.count
    monkeypatch.setattr(limits.UnpackBudget, "count", lambda self, read, out: (made.append(out), real(self, read, out)))
    sha256 = kept(store, BAD["a bomb"][0])
    with pytest.raises(ArtifactRefused, match="CTL-354"):
        unpack(store, sha256, tmp_path / "inner" / "code")
    assert sum(made) <= 3 << 20
    assert list((tmp_path / "inner").iterdir()) == []


def test_what_is_unpacked_is_limited_whatever_it_was_compressed_to(monkeypatch):
    monkeypatch.setattr(limits, "MOST_UNPACKED", 5000)
    content = random.Random(1).randbytes(6000)
    with pytest.raises(ArtifactRefused, match=r"CTL-354.*more bytes"):
        check_archive(io.BytesIO(archive(Part(b"a", content[:3000]), Part(b"b", content[3000:], method=0))), "zip")
    check_archive(io.BytesIO(archive(Part(b"a", content[:5000]))), "zip")


def test_a_small_file_of_one_letter_is_no_bomb(store):
    assert kept(store, archive(Part(b"a.py", b"#" * 900_000)))


def test_ten_thousand_entries_are_allowed(store):
    assert kept(store, archive(*(Part(f"f{number}".encode(), b"", method=0) for number in range(10_000))))


@pytest.mark.parametrize("flip", [0x01, 0x80, 0xFF])
def test_no_changed_byte_leads_out_or_breaks_us(tmp_path, flip):
    """Each is refused by a code of ours, or gives an archive as good as others: times and versions are not looked at."""
    for place in range(len(GOOD)):
        changed = bytearray(GOOD)
        changed[place] ^= flip
        try:
            check_archive(io.BytesIO(bytes(changed)), "zip")
        except ArtifactRefused as refused:
            assert refused.code.startswith("CTL-35")
        else:
            for each in files_of(io.BytesIO(bytes(changed)), "zip"):
                assert checked_parts("/".join(each.parts)) == each.parts


def test_random_damage_is_refused_or_harmless():
    dice = random.Random(7)
    sound = plain(**{f"m{number}": "x = 1\n" * number for number in range(20)})
    for _ in range(2000):
        changed = bytearray(sound)
        for _ in range(dice.randrange(1, 6)):
            changed[dice.randrange(len(changed))] = dice.randrange(256)
        changed = changed[: dice.randrange(len(changed))] if dice.random() < 0.1 else changed
        try:
            check_archive(io.BytesIO(bytes(changed)), "zip")
        except MillstreamError as refused:
            assert refused.code.startswith("CTL-35")


@pytest.mark.parametrize(
    "name", ["code", "code.tar.gz", "a/b.zip", "../a.zip", ".zip", "a b.zip", "a\n.zip", "ä.zip", None, "-a.zip"]
)
def test_an_archive_of_another_name_is_refused(store, name):
    with pytest.raises(ArtifactRefused, match="CTL-357"):
        store.receive(name)
    assert list((store.root / "incoming").iterdir()) == []


def test_too_much_is_refused_while_it_comes(tmp_path):
    store = ArtifactStore(tmp_path / "artifacts", limit=2500)
    with pytest.raises(ArtifactRefused, match=r"CTL-355.*2500"):
        kept(store, bytes(3000))
    assert list((store.root / "incoming").iterdir()) == []


# What is good.


def test_a_good_archive_is_kept_under_its_digest_and_unpacked(store, tmp_path):
    sha256 = kept(store, GOOD)
    assert kept(store, GOOD) == sha256
    assert sorted(path.name for path in store.root.iterdir()) == sorted([f"{sha256}.zip", "incoming"])
    assert (store.root / f"{sha256}.zip").stat().st_mode & 0o777 == 0o600
    before = os.umask(0)
    try:
        unpack(store, sha256, tmp_path / "run" / "code")
    finally:
        os.umask(before)
    assert everything(tmp_path / "run") == [("code/orders.py", "job = 1\n"), ("code/shop/prices.py", "p = 2\n")]
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "run").rglob("*")}
    assert modes == {"code": 0o700, "shop": 0o700, "orders.py": 0o600, "prices.py": 0o600}


def written(how):
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as file:
        how(file)
    return made.getvalue()


class _Endless(io.BytesIO):
    def seekable(self):
        return False

    def seek(self, *_):
        raise io.UnsupportedOperation


def streamed():
    """As programs write to a pipe: sizes follow the data."""
    made = _Endless()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("a.py", "x = 1\n" * 100)
        file.writestr("b/c.py", "")
    return made.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        GOOD,
        streamed(),
        written(lambda file: file.writestr("a.py", "")),
        written(lambda file: (file.mkdir("a"), file.writestr("a/b.py", "x"), file.writestr("ä/ö.py", "x"))),
        archive(Part(b"a/b.py"), Part(b"a/", b"", mode=FOLDER, method=0), Part(b"a/c/", b"", mode=FOLDER, method=0)),
        archive(Part(b"a.py"), comment=b"0123456789abcdef0123456789abcdef01234567"),
        archive(Part(b"a.py", attributes=0x20), Part(b"b", attributes=0)),
        archive(Part(b"a.py", extra=b"UT\x05\0\3" + bytes(4))),
        archive(Part(b"a.py"), between=bytes(16)),
        named("a.b.c/..d/e..f.py", "auxiliary.py", "console/nullable.py", "com10.py", "日本語.py"),
    ],
)
def test_what_programs_write_is_taken(store, tmp_path, content):
    unpack(store, kept(store, content), tmp_path / "code")
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        names = {name for name in file.namelist() if not name.endswith("/")}
        assert {name: file.read(name).decode() for name in names} == dict(everything(tmp_path / "code"))


def test_a_changed_file_in_the_store_is_refused(store, tmp_path):
    sha256 = kept(store, GOOD)
    for place in (0, len(GOOD) // 2, len(GOOD) - 1):
        changed = bytearray(GOOD)
        changed[place] ^= 1
        (store.root / f"{sha256}.zip").write_bytes(changed)
        with pytest.raises(ArtifactRefused, match="CTL-359"):
            unpack(store, sha256, tmp_path / "code")
    assert not (tmp_path / "code").exists()
    assert kept(store, GOOD) == sha256, "an upload mends it"
    unpack(store, sha256, tmp_path / "code")


@pytest.mark.parametrize(
    "sha256", ["", "..", "../etc/passwd", "incoming", "0" * 64, "A" * 64, "0" * 64 + "\n", None, "a" * 63]
)
def test_a_digest_that_is_not_there_is_refused(store, sha256):
    with pytest.raises(UnknownName, match="CTL-358"), store.opened(sha256):
        pass


def test_a_link_in_the_store_is_not_followed(store, tmp_path):
    sha256 = kept(store, GOOD)
    (store.root / f"{sha256}.zip").rename(tmp_path / "elsewhere")
    (store.root / f"{sha256}.zip").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic"), store.opened(sha256):
        pass


def test_what_is_there_already_stays_and_what_was_damaged_is_mended(store, tmp_path):
    sha256, target = kept(store, GOOD), tmp_path / "run" / "code"
    unpack(store, sha256, target)
    inode = target.stat().st_ino
    (target / "shop" / "__pycache__").mkdir()
    (target / "shop" / "__pycache__" / "prices.cpython-311.pyc").write_bytes(b"compiled")
    unpack(store, sha256, target)
    assert target.stat().st_ino == inode
    good = {name: text for name, text in everything(target) if "__pycache__" not in name}
    for damage in (
        lambda: (target / "orders.py").write_text("job = 2\n"),
        lambda: (target / "orders.py").write_text(""),
        lambda: (target / "orders.py").unlink(),
        lambda: (target / "json.py").write_text("added"),
        lambda: (
            (target / "orders.py").rename(tmp_path / "o.py"),
            (target / "orders.py").symlink_to(tmp_path / "o.py"),
        ),
        lambda: ((target / "shop").rename(tmp_path / "s"), (target / "shop").symlink_to(tmp_path / "s")),
        lambda: (target.rename(tmp_path / "c"), target.symlink_to(tmp_path / "c")),
        lambda: (
            target.unlink() if target.is_symlink() else target.rename(tmp_path / "d"),
            target.write_text("a file"),
        ),
    ):
        damage()
        unpack(store, sha256, target)
        assert dict(everything(target)) == good
        assert not target.is_symlink()
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["code"]
    assert (tmp_path / "c" / "orders.py").exists(), "what a link leads to is left alone"


def test_many_who_unpack_at_once_get_whole_folders(store, tmp_path):
    content = plain(**{f"m{number}": f"x = {number}\n" * 50 for number in range(100)})
    sha256 = kept(store, content)
    with ThreadPoolExecutor(8) as pool:
        for _ in range(5):
            target = tmp_path / f"run{_}" / "code"
            list(pool.map(lambda _, at=target: unpack(store, sha256, at), range(8)))
            assert len(everything(target)) == 100
            assert [path.name for path in target.parent.iterdir()] == ["code"]


# Wheels.


def test_the_same_bytes_stay_of_the_kind_they_came_as_first(store, tmp_path):
    content = wheel(**{"DATA__purelib__a.py": "1"})
    names = ["shop-1.0-py3-none-any.whl", "shop.zip"]
    assert len({kept(store, content, name) for name in names}) == 1
    assert [path.suffix for path in sorted(store.root.iterdir())] == [".wheel", ""]
    unpack(store, kept(store, content, names[1]), tmp_path / "code")
    assert (tmp_path / "code" / "a.py").exists()


def test_the_pure_part_of_a_wheel_is_imported(store, tmp_path):
    more = {"shop_code.py": "x = 1\n", "DATA__purelib__shop_more.py": "y = 2\n", "DATA__scripts__run.py": "raise\n"}
    more |= {"DATA__headers__a.h": "", "DATA__data__b.txt": "", "pack__inner.py": "z = 3\n"}
    sha256 = kept(store, wheel(**more), "shop-1.0-py3-none-any.whl")
    unpack(store, sha256, tmp_path / "code")
    names = [name for name, _ in everything(tmp_path / "code")]
    assert names == [
        "pack/inner.py",
        *(f"shop-1.0.dist-info/{name}" for name in ("METADATA", "RECORD", "WHEEL")),
        "shop_code.py",
        "shop_more.py",
    ]
    script = "import shop_code, shop_more, pack.inner; print(shop_code.x, shop_more.y, pack.inner.z)"
    script += (
        "\nfrom importlib.metadata import distribution; print(distribution('shop').read_text('WHEEL') is not None)"
    )
    command = [sys.executable, "-I", "-c", f"import sys; sys.path.append({str(tmp_path / 'code')!r})\n{script}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.split() == ["1", "2", "3", "True"], done.stderr


@pytest.mark.parametrize(
    "content",
    [
        GOOD,
        wheel(pure="false"),
        wheel(pure=""),
        wheel(version="2.0"),
        wheel(needed=("METADATA", "WHEEL")),
        wheel(needed=("METADATA", "RECORD")),
        wheel(**{"DATA__platlib__a.so": ""}),
        wheel(**{"other-1.0.dist-info__WHEEL": "Root-Is-Purelib: true"}),
    ],
)
def test_a_wheel_that_needs_installing_is_refused(store, content):
    with pytest.raises(ArtifactRefused, match="CTL-357"):
        kept(store, content, "shop-1.0-py3-none-any.whl")


@pytest.mark.parametrize("inner", ["a.py", "A.py", "pack", "pack__b.py", "PACK__c.py"])
def test_what_a_wheel_moves_takes_no_place_of_another(store, inner):
    content = wheel(**{"a.py": "1", "pack__b.py": "2", f"DATA__purelib__{inner}": "3"})
    with pytest.raises(ArtifactRefused, match="CTL-353"):
        kept(store, content, "shop-1.0-py3-none-any.whl")


def test_kinds_by_name():
    assert [kind_of(name) for name in ("a.zip", "shop-1.0+local-py3-none-any.whl")] == ["zip", "wheel"]
