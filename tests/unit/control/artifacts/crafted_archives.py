"""Archives that must not be unpacked, each with the code of its refusal: made byte by byte where no program would write them."""

import dataclasses
import io
import struct
import zipfile
import zlib

REGULAR, LINK, FOLDER = 0o100644, 0o120777, 0o040755
FIFO, CHARACTER, BLOCK, SOCKET = 0o010644, 0o020644, 0o060644, 0o140644


@dataclasses.dataclass
class Part:
    """One entry; what is not given follows from the content."""

    name: bytes
    content: bytes = b"x = 1\n"
    mode: int = REGULAR
    method: int = 8
    flags: int = 0
    local_name: bytes | None = None
    local_flags: int | None = None
    local_method: int | None = None
    size: int | None = None
    packed_size: int | None = None
    crc: int | None = None
    packed: bytes | None = None
    header: int | None = None
    attributes: int | None = None
    disk: int = 0
    is_written: bool = True
    extra: bytes = b""


def deflated(content):
    packing = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packing.compress(content) + packing.flush()


def archive(*parts, before=b"", comment=b"", count=None, shift=0, list_size=None, disk=0, between=b""):
    """The bytes of an archive of these parts."""
    out, listed = io.BytesIO(), b""
    out.write(before)
    for part in parts:
        packed = (
            part.packed if part.packed is not None else part.content if part.method != 8 else deflated(part.content)
        )
        crc = zlib.crc32(part.content) if part.crc is None else part.crc
        size = len(part.content) if part.size is None else part.size
        packed_size = len(packed) if part.packed_size is None else part.packed_size
        header = out.tell() if part.header is None else part.header
        local = part.name if part.local_name is None else part.local_name
        flags = part.flags if part.local_flags is None else part.local_flags
        method = part.method if part.local_method is None else part.local_method
        if part.is_written:
            fields = (b"PK\3\4", 20, flags, method, 0, 0x21, crc, packed_size, size, len(local), 0)
            out.write(struct.pack("<4s5H3L2H", *fields) + local + packed)
        attributes = part.mode << 16 if part.attributes is None else part.attributes
        fields = (b"PK\1\2", 0x31E, 20, part.flags, part.method, 0, 0x21, crc, packed_size, size)
        fields += (len(part.name), len(part.extra), 0, part.disk, 0, attributes, header)
        listed += struct.pack("<4s6H3L5H2L", *fields) + part.name + part.extra
    out.write(between)
    start = out.tell() + shift
    number = len(parts) if count is None else count
    size = len(listed) if list_size is None else list_size
    out.write(
        listed + struct.pack("<4s4H2LH", b"PK\5\6", disk, disk, number, number, size, start, len(comment)) + comment
    )
    return out.getvalue()


def plain(**files):
    """A good archive."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in files.items():
            file.writestr(name.replace("__", "/") + ".py", content)
    return made.getvalue()


def named(*names):
    return archive(*(Part(name.encode(), flags=0x800) for name in names))


GOOD = plain(orders="job = 1\n", shop__prices="p = 2\n")
_CUT = {f"cut after {len(GOOD) * share // 10}": (GOOD[: len(GOOD) * share // 10], "CTL-350") for share in range(10)}
_ZEROS = b"\0" * (20 << 20)
_MANY = [Part(f"f{number}".encode(), b"", method=0) for number in range(10_001)]
_QUINE = Part(b"first.py", b"a" * 1000, method=0)

NAMES = [
    *(
        "/etc/passwd",
        "//server/share",
        "../up.py",
        "a/../../up.py",
        "a/..",
        "..",
        ".",
        "./a.py",
        "a/./b.py",
        "a//b.py",
        "/",
    ),
    *("C:/windows/a.py", "C:a.py", "a/C:/b.py", "file.py:stream", "..\\up.py", "a\\b.py", "\\\\server\\a", "a/..\\b"),
    *(
        "a\0b.py",
        "a.py\0.txt",
        "a\nb.py",
        "a\x1b[31m.py",
        "a\x7f.py",
        "a\u202egpj.py",
        "a\u200b.py",
        "\ufeffa.py",
        "a\u2028.py",
    ),
    *("a/b.py ", "a./b.py", "a /b.py", " a.py", "a...", "..."),
    *("aux.py", "a/NUL", "com1.txt", "LPT9", "con", "nul .py", "CONIN$", "com\u00b9"),
    *("\uff0e\uff0e/up.py", "\u2024\u2024/up.py", "a\uff0fb.py", "a\uff3cb.py", "a\uff1ab.py", "\u2025/up.py"),
    *("/".join(["d"] * 65), "x" * 256, "\u00e4" * 128, "/".join(["deep" * 10] * 26)),
]
DUPLICATES = [
    *(
        ("a.py", "a.py"),
        ("a.py", "A.py"),
        ("Shop/a.py", "shop/b.py"),
        ("a", "a/b.py"),
        ("a/b.py", "a"),
        ("a/b.py", "A"),
    ),
    *(
        ("caf\u00e9.py", "cafe\u0301.py"),
        ("stra\u00dfe.py", "strasse.py"),
        ("\ufb01le.py", "file.py"),
        ("\u212a.py", "k.py"),
    ),
    *(("\u0130.py", "i\u0307.py"), ("a/x/b.py", "a/X"), ("a\u00b2.py", "a2.py"), ("\u1e9e.py", "SS.py"), ("a/", "A/")),
]
BAD = {
    "nothing": (b"", "CTL-350"),
    "text": (b"import os\n" * 100, "CTL-350"),
    "an end alone": (b"PK\5\6" + bytes(18), "CTL-350"),
    "no entries": (archive(), "CTL-350"),
    "something behind it": (GOOD + b"x", "CTL-350"),
    "something before it": (archive(Part(b"a.py"), before=b"#!/bin/sh\n"), "CTL-350"),
    "something before it, unshifted": (b"MZ" + GOOD, "CTL-350"),
    "two archives": (GOOD + GOOD, "CTL-350"),
    "an end in its comment": (archive(Part(b"a.py"), comment=b"PK\5\6" + bytes(18)), "CTL-350"),
    "a list somewhere else": (archive(Part(b"a.py"), shift=-4), "CTL-350"),
    "a list with a gap behind": (archive(Part(b"a.py"), list_size=20), "CTL-350"),
    "a count too small": (archive(Part(b"a.py"), Part(b"b.py"), count=1), "CTL-350"),
    "a count too large": (archive(Part(b"a.py"), count=2), "CTL-350"),
    "several disks": (archive(Part(b"a.py"), disk=1), "CTL-350"),
    "an entry on another disk": (archive(Part(b"a.py", disk=1)), "CTL-350"),
    "64 bit sizes": (archive(Part(b"a.py"), count=0xFFFF), "CTL-354"),
    "64 bit size of a file": (archive(Part(b"a.py", size=0xFFFFFFFF, packed_size=0xFFFFFFFF)), "CTL-350"),
    "a header beyond the end": (archive(Part(b"a.py"), Part(b"b.py", header=1 << 30, is_written=False)), "CTL-350"),
    "a header in the list": (archive(Part(b"a.py"), Part(b"b.py", header=40, is_written=False)), "CTL-350"),
    "data in the list": (archive(Part(b"a.py", method=0, size=60, packed_size=60)), "CTL-350"),
    "one file twice in the list": (archive(_QUINE, Part(b"b.py", header=0, is_written=False)), "CTL-350"),
    "one file under many names": (
        archive(_QUINE, *(dataclasses.replace(_QUINE, header=0, is_written=False) for _ in range(100))),
        "CTL-350",
    ),
    "another name in the header": (archive(Part(b"a.py", local_name=b"b.py")), "CTL-350"),
    "a way up in the header": (archive(Part(b"a.py", local_name=b"../.py")), "CTL-350"),
    "another method in the header": (archive(Part(b"a.py", local_method=0)), "CTL-350"),
    "a wrong checksum": (archive(Part(b"a.py", crc=1)), "CTL-350"),
    "a wrong checksum, stored": (archive(Part(b"a.py", crc=1, method=0)), "CTL-350"),
    "less than it says": (archive(Part(b"a.py", size=1000)), "CTL-350"),
    "more than it says": (archive(Part(b"a.py", b"abc", size=2)), "CTL-350"),
    "more than it says, with the checksum of that": (
        archive(Part(b"a.py", b"abc", size=2, crc=zlib.crc32(b"ab"))),
        "CTL-350",
    ),
    "much more than it says": (archive(Part(b"a.py", _ZEROS, size=10, crc=zlib.crc32(bytes(10)))), "CTL-350"),
    "a bomb": (archive(Part(b"a.py", _ZEROS)), "CTL-354"),
    "a bomb beside a file": (
        archive(Part(b"b.py", bytes(range(256)) * 40, method=0), Part(b"a.py", _ZEROS)),
        "CTL-354",
    ),
    "a bomb in a folder": (archive(Part(b"a/", _ZEROS, mode=FOLDER, size=0)), "CTL-350"),
    "damaged compression": (archive(Part(b"a.py", packed=b"\xff" * 20)), "CTL-350"),
    "cut compression": (archive(Part(b"a.py", b"abc" * 100, packed=deflated(b"abc" * 100)[:-4])), "CTL-350"),
    "something behind the compressed": (archive(Part(b"a.py", packed=deflated(b"x = 1\n") + b"more")), "CTL-350"),
    "nothing compressed": (archive(Part(b"a.py", b"", packed=b"")), "CTL-350"),
    "many entries": (archive(*_MANY), "CTL-354"),
    "many entries, and says few": (archive(*_MANY, count=5), "CTL-354"),
    "encrypted": (archive(Part(b"a.py", flags=1)), "CTL-356"),
    "encrypted by its header alone": (archive(Part(b"a.py", local_flags=1)), "CTL-350"),
    "strongly encrypted": (archive(Part(b"a.py", flags=0x40)), "CTL-356"),
    "patched": (archive(Part(b"a.py", flags=0x20)), "CTL-356"),
    "a hidden list": (archive(Part(b"a.py", flags=0x2000)), "CTL-356"),
    "bzip2": (archive(Part(b"a.py", method=12)), "CTL-356"),
    "lzma": (archive(Part(b"a.py", method=14)), "CTL-356"),
    "deflate64": (archive(Part(b"a.py", method=9)), "CTL-356"),
    "an unknown method": (archive(Part(b"a.py", method=99)), "CTL-356"),
    "a stored file of two sizes": (archive(Part(b"a.py", method=0, size=3)), "CTL-356"),
    "a link": (archive(Part(b"a.py", b"/etc/passwd", mode=LINK, method=0)), "CTL-352"),
    "a link to a folder, and a file in it": (
        archive(Part(b"a", b"/tmp", mode=LINK, method=0), Part(b"a/b.py")),
        "CTL-352",
    ),
    "a link that ends like a folder": (archive(Part(b"a/", b"", mode=LINK, method=0)), "CTL-352"),
    "a pipe": (archive(Part(b"a", b"", mode=FIFO, method=0)), "CTL-352"),
    "a character device": (archive(Part(b"a", b"", mode=CHARACTER, method=0)), "CTL-352"),
    "a block device": (archive(Part(b"a", b"", mode=BLOCK, method=0)), "CTL-352"),
    "a socket": (archive(Part(b"a", b"", mode=SOCKET, method=0)), "CTL-352"),
    "a volume label": (archive(Part(b"a", b"", attributes=0x08, method=0)), "CTL-352"),
    "a folder without a slash": (archive(Part(b"a", b"", mode=FOLDER, method=0)), "CTL-350"),
    "a folder of DOS without a slash": (archive(Part(b"a", b"", attributes=0x10, method=0)), "CTL-350"),
    "a file with a slash": (archive(Part(b"a/", b"", method=0)), "CTL-350"),
    "a folder with content": (archive(Part(b"a/", b"abc", mode=FOLDER, method=0)), "CTL-350"),
    "a name that is no UTF-8": (archive(Part(b"\xff\xfe.py", flags=0x800)), "CTL-350"),
    "a name in no known encoding": (archive(Part("ä.py".encode("cp437"))), "CTL-350"),
    "a surrogate in a name": (archive(Part("\ud800.py".encode("utf-8", "surrogatepass"), flags=0x800)), "CTL-350"),
    "no name": (archive(Part(b"")), "CTL-350"),
    **_CUT,
    **{f"name {name!r}"[:60]: (named(name), "CTL-351") for name in NAMES if not name.endswith("/")},
    "the root as a folder": (archive(Part(b"/", b"", mode=FOLDER, method=0)), "CTL-351"),
    "a folder above": (archive(Part(b"../", b"", mode=FOLDER, method=0)), "CTL-351"),
    **{
        f"both {names}": (
            archive(
                *(Part(n.encode(), b"", flags=0x800, method=0, mode=FOLDER if n[-1] == "/" else REGULAR) for n in names)
            ),
            "CTL-353",
        )
        for names in DUPLICATES
    },
}


def wheel(name="shop", *, pure="true", version="1.0", needed=("METADATA", "RECORD", "WHEEL"), **more):
    """A wheel; `more` are files by path, with `__` for a slash."""
    info = f"{name}-1.0.dist-info"
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as file:
        for each in needed:
            text = (
                f"Wheel-Version: {version}\nRoot-Is-Purelib: {pure}\nTag: py3-none-any\n" if each == "WHEEL" else "\n"
            )
            file.writestr(f"{info}/{each}", text)
        for path, content in more.items():
            file.writestr(path.replace("__", "/").replace("DATA", f"{name}-1.0.data"), content)
    return made.getvalue()
