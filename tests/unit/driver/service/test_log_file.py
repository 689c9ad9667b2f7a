"""The log of a driver: lines of bounded length without control characters or secrets, in files of bounded size."""

import os
import subprocess
import sys

from millstream.driver.service.log_file import LINE_BYTES, RotatingFile
from millstream.driver.service.mask import Mask

PRINTS = """
import os, sys
from pathlib import Path
from millstream.driver.service.log_file import OwnOutput, RotatingFile
from millstream.driver.service.mask import Mask

mask = Mask()
mask.learn(["hunter2"])
pump = OwnOutput(RotatingFile(Path(sys.argv[1]), mask))
print("from python", "hunter2")
print("to stderr", file=sys.stderr)
os.system("echo from a child hunter2")
os.write(1, b"half a line without end hunt")
os.write(1, b"er2")
os.write(2, b"x" * 200_000 + b"hunter2\\n")
print("after a long line")
pump.close()
print("lost")
"""


def written(tmp_path, *lines, **options):
    mask = Mask()
    mask.learn(["hunter2", "first line\nsecond line"])
    file = RotatingFile(tmp_path / "driver.log", mask, **options)
    for line in lines:
        file.write(line)
    file.close()
    return (tmp_path / "driver.log").read_bytes()


def test_control_characters_are_shown_as_what_they_are(tmp_path):
    assert written(tmp_path, b"a\x1b[31mred\x00\r\tb") == b"a\\x1b[31mred\\x00\\x0d\tb\n"


def test_a_secret_is_hidden_also_where_a_line_is_cut(tmp_path):
    line = b"x" * (LINE_BYTES - 12) + b"hunter2" + b"y" * 100
    content = written(tmp_path, line, b"second line of it")
    assert b"hunt" not in content
    assert content.splitlines()[1] == b"*** of it"
    assert [len(each) for each in content.splitlines()] == [LINE_BYTES, 9]


def test_full_files_are_turned_and_five_are_kept(tmp_path):
    written(tmp_path, *(b"%06d" % number * 10 for number in range(1000)), file_bytes=1000)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["driver.log", *(f"driver.log.{number}" for number in range(1, 6))]
    assert max(path.stat().st_size for path in tmp_path.iterdir()) <= 1001
    assert b"000999" in (tmp_path / "driver.log").read_bytes()
    assert {oct(path.stat().st_mode)[-3:] for path in tmp_path.iterdir()} == {"600"}


def test_everything_that_a_process_prints_goes_through(tmp_path):
    path = tmp_path / "driver.log"
    subprocess.run([sys.executable, "-c", PRINTS, str(path)], check=True, env={**os.environ, "PYTHONPATH": "src"})
    lines = path.read_text().splitlines()
    assert lines[:3] == ["from python ***", "to stderr", "from a child ***"]
    assert "hunt" not in path.read_text()
    assert lines[-1] == "after a long line"
    assert max(map(len, lines)) <= LINE_BYTES
