"""The reference names everything public, with every parameter, and every field of what is stored."""

import dataclasses
import inspect
import re

import pytest
from tests.docs.pages import ROOT

import millstream as ms
from millstream.api.running.control import Answer, Request
from millstream.checkpoint.head import Head
from millstream.checkpoint.lease_record import LeaseRecord
from millstream.checkpoint.manifest import EpochManifest, ParticipantRecord, SinkRecord, SourceRange, StateFileRecord
from millstream.checkpoint.savepoint import Savepoint
from millstream.connectors.formats.options import DECODE_OPTIONS, ENCODE_OPTIONS, FORMATS
from millstream.inspect.connectors.facts import connector_facts, guarantee_table
from millstream.model.counts import StepCounts
from millstream.plan.deployment import Deployment, EpochPolicy, MemoryBudget
from millstream.plan.epoch import EpochPlan
from millstream.registry import names

PAGE = (ROOT / "docs/reference/api.md").read_text()
CLASSES = [
    ms.DataStream,
    ms.KeyedStream,
    ms.WindowedStream,
    ms.Job,
    ms.RunningJob,
    ms.ValueState,
    ms.ListState,
    ms.MapState,
    ms.Context,
]


def headings():
    return {
        name.strip("` ") for line in re.findall(r"^## (.+)$", PAGE, re.MULTILINE) for name in re.split(r"[,:]", line)
    }


@pytest.mark.parametrize("name", ms.__all__)
def test_a_public_name_has_a_section(name):
    assert name in headings()


FUNCTIONS = [name for name in ms.__all__ if inspect.isfunction(getattr(ms, name))]


@pytest.mark.parametrize("name", [*FUNCTIONS, "Job"])
def test_a_signature_is_complete(name):
    shown = re.search(rf"`ms\.{name}\(([^`]*)\)`", PAGE)
    assert shown, f"ms.{name}(...) is not shown"
    parameters = inspect.signature(getattr(ms, name)).parameters
    written = [part.strip().split("=")[0].lstrip("*") for part in shown[1].split(",")]
    assert [part for part in written if part] == list(parameters)


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_every_method_of_a_class_is_listed(kind):
    public = {name for name, value in inspect.getmembers(kind) if not name.startswith("_") and callable(value)}
    public -= {"bound_to", "describe"}  # of states: the package calls them itself
    section = PAGE[PAGE.index(heading_of(kind)) :]
    section = section[: section.find("\n## ", 3)]
    assert {name for name in public if f"`{name}(" not in section and f".{name}(" not in section} == set()


def heading_of(kind):
    return next(
        line for line in PAGE.splitlines() if line.startswith("## ") and kind.__name__ in re.split(r"\W+", line)
    )


CHECKPOINT = [
    EpochManifest,
    EpochPlan,
    StepCounts,
    Head,
    LeaseRecord,
    SourceRange,
    ParticipantRecord,
    SinkRecord,
    StateFileRecord,
    Request,
    Answer,
]
STORED = [(kind, "checkpoint-layout") for kind in CHECKPOINT] + [(Savepoint, "savepoint-layout")]


@pytest.mark.parametrize(("kind", "page"), STORED, ids=lambda value: getattr(value, "__name__", ""))
def test_every_stored_field_is_explained(kind, page):
    text = (ROOT / f"docs/reference/{page}.md").read_text()
    assert [field for field in kind.__struct_fields__ if f"`{field}`" not in text] == []


@pytest.mark.parametrize("kind", [Deployment, MemoryBudget, EpochPolicy], ids=lambda kind: kind.__name__)
def test_every_setting_is_explained(kind):
    page = (ROOT / "docs/reference/configuration.md").read_text()
    assert [field.name for field in dataclasses.fields(kind) if f"`{field.name}`" not in page] == []


def test_the_failpoints_are_listed():
    named = {
        name
        for path in (ROOT / "src").rglob("*.py")
        for name in re.findall(r'\bfailpoint\("(\w+)"\)', path.read_text(encoding="utf-8"))
    }
    page = (ROOT / "docs/concepts/epochs.md").read_text()
    section = page[page.index("## Failpoints") :].partition("\n## ")[0]
    assert set(re.findall(r"`(\w+)`", section.partition("|---")[2])) - named == {
        "files",
        "jdbc",
        "kafka",
        "postgres_cdc",
        "nats",
        "rabbitmq",
    }
    assert named - set(re.findall(r"`(\w+)`", section)) == set()


def test_the_table_of_guarantees_is_what_the_connectors_declare():
    text = (ROOT / "docs/reference/connectors.md").read_text()
    written = [line for line in text.splitlines() if line.startswith(("| source `", "| sink `"))]
    ours = [connector_facts(name) for name in sorted(names("connectors"))]
    assert written == guarantee_table(ours)[2:], "millstream connectors ls --format markdown"


@pytest.mark.parametrize("name", FORMATS)
def test_every_option_of_a_format_is_in_its_section(name):
    page = (ROOT / "docs/reference/formats.md").read_text()
    section = page.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
    table = section.partition("| option | default | meaning |\n")[2].partition("\n\n")[0]
    options = DECODE_OPTIONS[name] | ENCODE_OPTIONS[name]
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == options.keys()
