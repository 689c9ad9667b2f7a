"""A warning in a test is an error; what is ignored is named by its message."""

import gc
import tomllib
import warnings
from pathlib import Path

import pytest

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"


def filters():
    return tomllib.loads(PYPROJECT.read_text())["tool"]["pytest"]["ini_options"]["filterwarnings"]


def test_every_warning_is_an_error_unless_it_is_named():
    first, *ignored = filters()
    assert first == "error"
    for each in ignored:
        action, message, category = each.split(":")[:3]
        assert action == "ignore"
        assert len(message) >= 10, f"{each}: name the message"
        assert category, f"{each}: name the category"


@pytest.mark.parametrize("category", [ResourceWarning, DeprecationWarning, FutureWarning])
def test_no_kind_of_warning_passes(category):
    with pytest.raises(category):
        warnings.warn("something is left open", category, stacklevel=1)


def test_a_file_that_is_left_open_is_noticed(tmp_path):
    """A destructor cannot raise; what it wanted to is reported in the end."""
    noticed = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.unraisablehook", lambda report: noticed.append(report.exc_type))
        (tmp_path / "left").open("w")
        gc.collect()
    assert noticed == [ResourceWarning]
