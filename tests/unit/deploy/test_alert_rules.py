"""Alert rules are right by Prometheus's own tool, tried where they fire and where they are silent, and explained."""

import re
import subprocess
from pathlib import Path

import pytest
import yaml
from scripts import promtool

from millstream.control.metrics.catalogue import ALL_METRICS

ROOT = Path(__file__).parents[3]
RULES = ROOT / "deploy" / "prometheus"
GUIDE = (ROOT / "docs" / "guides" / "alerts.md").read_text()
SUFFIXES = ("_bucket", "_sum", "_count")


def rules(name):
    groups = yaml.safe_load((RULES / name).read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


ALERTS = {rule["alert"]: rule for rule in rules("alerts.yml")}
RECORDED = {rule["record"]: rule for rule in rules("recording.yml")}
TESTS = yaml.safe_load((RULES / "alerts_test.yml").read_text())["tests"]


@pytest.fixture
def tool():
    found = promtool.program()
    if not found.exists():
        pytest.skip(f"no promtool at {found}; run `python scripts/promtool.py install`")
    return lambda *words: subprocess.run([found, *words], cwd=RULES, capture_output=True, text=True, timeout=120)


def exported():
    """Names under which samples of the list arrive, with what a histogram adds to its own."""
    for metric in ALL_METRICS:
        yield from (metric.shown + suffix for suffix in SUFFIXES) if metric.kind == "histogram" else (metric.shown,)


def test_prometheus_takes_the_rules(tool):
    checked = tool("check", "rules", "recording.yml", "alerts.yml")
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_every_rule_does_what_its_tests_say(tool):
    tried = tool("test", "rules", "alerts_test.yml")
    assert tried.returncode == 0, tried.stdout + tried.stderr


def test_a_test_that_does_not_hold_is_noticed(tool, tmp_path):
    text = (RULES / "alerts_test.yml").read_text().replace("0.95x120", "0.5x120")
    (tmp_path / "wrong.yml").write_text(
        text.replace("recording.yml, alerts.yml", f"{RULES}/recording.yml, {RULES}/alerts.yml")
    )
    tried = tool("test", "rules", str(tmp_path / "wrong.yml"))
    assert tried.returncode != 0
    assert "BufferFull" in tried.stdout + tried.stderr


@pytest.mark.parametrize("alert", ALERTS)
def test_every_alert_fires_in_one_test_and_is_silent_in_another(alert):
    tried = [each for test in TESTS for each in test["alert_rule_test"] if each["alertname"] == alert]
    assert {bool(each["exp_alerts"]) for each in tried} == {True, False}


@pytest.mark.parametrize("alert", ALERTS)
def test_every_alert_is_explained_and_named_by_its_job(alert):
    assert f"### {alert}\n" in GUIDE
    assert "{{ $labels.job_name }}" in ALERTS[alert]["annotations"]["summary"]
    assert ALERTS[alert]["labels"]["severity"] in ("warning", "critical")


def test_the_guide_explains_no_other_alert_and_every_recorded_figure():
    assert set(re.findall(r"^### (\w+)$", GUIDE, re.MULTILINE)) == set(ALERTS)
    assert {name for name in RECORDED if ":" not in name} <= set(re.findall(r"`(\w+)`", GUIDE))


def test_rules_name_only_what_is_exported_or_recorded():
    known = {*exported(), *RECORDED}
    for rule in (*ALERTS.values(), *RECORDED.values()):
        # What stands in braces and brackets, and the names behind `by`, are labels and ranges.
        bare = re.sub(r"\{[^}]*\}|\[[^\]]*\]|\b(?:by|on|without) \([^)]*\)", "", rule["expr"])
        names = set(re.findall(r"[a-z_][\w:]*", bare))
        functions = set(re.findall(r"([a-z_]\w*)\s*\(", bare)) | {"and", "or", "unless"}
        assert names - functions <= known, rule


def test_rules_name_only_labels_and_values_that_there_are():
    labels = {name for metric in ALL_METRICS for name in metric.labels} | {"job_name", "slot", "le"}
    for rule in (*ALERTS.values(), *RECORDED.values()):
        grouped = [
            name.strip()
            for names in re.findall(r"\b(?:by|on|without) \(([^)]*)\)", rule["expr"])
            for name in names.split(",")
        ]
        chosen = re.findall(r"[{,](\w+)=", rule["expr"])
        assert {*grouped, *chosen} <= labels, rule


def test_series_of_the_tests_are_exported():
    names = {each["series"].partition("{")[0] for test in TESTS for each in test["input_series"]}
    assert names <= set(exported())
