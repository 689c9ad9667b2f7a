"""Dashboards and the page of figures are what the list says, and their expressions are ones that Prometheus reads."""

import json
import re
import subprocess

import pytest
import yaml
from scripts import metrics_pages, promtool

from millstream.control.metrics.catalogue import ALL_METRICS

FILES = metrics_pages.files()
BOARDS = {path.stem: json.loads(text) for path, text in FILES.items() if path.suffix == ".json"}


def expressions(board):
    return [target["expr"] for panel in board["panels"] for target in panel.get("targets", [])]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_files_are_what_the_list_says(path):
    assert path.read_text() == FILES[path], "run: python scripts/metrics_pages.py write"


def test_every_figure_is_shown_once_and_nothing_else():
    shown = [
        name for board in BOARDS.values() for each in expressions(board) for name in re.findall(r"millstream_\w+", each)
    ]
    assert sorted(name.removesuffix("_bucket") for name in shown) == sorted(metric.shown for metric in ALL_METRICS)


def test_panels_stand_beside_each_other():
    for board in BOARDS.values():
        taken = set()
        for panel in board["panels"]:
            place = panel["gridPos"]
            cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
            assert not cells & taken, panel["title"]
            assert place["x"] + place["w"] <= 24
            taken |= cells
        assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])


@pytest.mark.parametrize("name", BOARDS)
def test_prometheus_reads_every_expression(name, tmp_path):
    tool = promtool.program()
    if not tool.exists():
        pytest.skip(f"no promtool at {tool}; run `python scripts/promtool.py install`")
    asked = [re.sub(r"\$__rate_interval", "5m", each).replace("$", "") for each in expressions(BOARDS[name])]
    rules = [{"record": f"panel:{number}", "expr": each} for number, each in enumerate(asked)]
    (tmp_path / "panels.yml").write_text(yaml.safe_dump({"groups": [{"name": name, "rules": rules}]}))
    checked = subprocess.run(
        [tool, "check", "rules", tmp_path / "panels.yml"], capture_output=True, text=True, timeout=60
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
