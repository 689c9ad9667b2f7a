"""The reference of error codes lists exactly the codes that the source raises."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
CODE = r"[A-Z]+-(?:\d{3}|ABORT|FAILPOINT)"


def raised():
    return {
        code
        for path in (ROOT / "src").rglob("*.py")
        for code in re.findall(rf'"({CODE})"', path.read_text(encoding="utf-8"))
    }


def documented():
    text = (ROOT / "docs/reference/errors.md").read_text(encoding="utf-8")
    return re.findall(rf"^\| ({CODE}) \|", text, re.MULTILINE)


def test_every_code_in_the_source_is_documented():
    assert raised() - set(documented()) == set()


def test_every_documented_code_is_in_the_source():
    assert set(documented()) - raised() == set()


def test_no_code_is_documented_twice():
    assert len(documented()) == len(set(documented()))
