"""The benchmark of open windows runs at its small scale. Figures are produced, never judged."""

import pytest
from benchmarks import open_windows
from benchmarks.__main__ import COMPARISONS
from benchmarks.measure import Setting


@pytest.fixture(scope="module")
def sides(tmp_path_factory):
    setting = Setting(scale="small", data=tmp_path_factory.mktemp("data"), work=tmp_path_factory.mktemp("work"))
    return {name: side(setting) for name, side in open_windows.SIDES.items()}


def test_every_line_has_figures(sides):
    lines = open_windows.lines(sides, "small")
    assert [line.what for line in lines[:4]] == [
        f"process, {count} open windows" for count in ("10", "100", "1,000", "4,000")
    ]
    assert all(line.ours > 0 for line in lines)
    assert [line.ratio for line in lines[::4][:2]] == [1.0, 1.0]
    assert [name for _, name in open_windows.USES] == list(sides)
    assert "open_windows" in COMPARISONS


@pytest.mark.parametrize("closing", open_windows.CLOSINGS)
def test_so_many_windows_are_open_as_it_says(sides, closing):
    assert [sides[f"{closing}{count}"].rows for count in (10, 100)] == [10, 100]
    # 20 rows, one a second: 360 windows each, of which the last two rows share all but two.
    assert sides[f"{closing}_sliding"].rows == 361
