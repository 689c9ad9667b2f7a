"""The reference names everything public, with every parameter, and every field of what is stored."""

import dataclasses
import inspect
import re

import pytest
from tests.docs.pages import ROOT

import millstream as ms
from millstream.api.running.control import Answer, Request
from millstream.checkpoint.head import Head
from millstream.checkpoint.lease import LeaseRecord
from millstream.checkpoint.manifest import EpochManifest, ParticipantRecord, SinkRecord, SourceRange, StateFileRecord
from millstream.checkpoint.savepoint import Savepoint
from millstream.connectors.formats.options import DECODE_OPTIONS, ENCODE_OPTIONS, FORMATS
from millstream.model.connector import ConnectorSpec, declaration, is_written_directly
from millstream.model.counts import StepCounts
from millstream.model.guarantee import SINKS_FOR, SOURCES_FOR, Guarantee
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
        "nats",
        "rabbitmq",
    }
    assert named - set(re.findall(r"`(\w+)`", section)) == set()


def kept_by(role, name, options, guarantee):
    """How a connector keeps a guarantee, in the words of the tables."""
    declared = declaration(name)
    if role == "source":
        return "yes" if declared.source.promises(options) in SOURCES_FOR[guarantee] else "refused"
    capability = declared.sink.capability_of(options) if declared.sink.capability_of else declared.sink.capability
    if capability not in SINKS_FOR[guarantee]:
        return "refused"
    if is_written_directly(ConnectorSpec(name, options), guarantee):
        return "direct"
    return "yes" if name == "print" else "staged"


def table_of_guarantees():
    """The rows of the reference: connectors and their options, and what is written about each guarantee."""
    text = (ROOT / "docs/reference/connectors.md").read_text()
    for row in re.findall(r"^\| ([^|]+) \| (\w+) \| (\w+) \| (\w+) \| (\w+) \|$", text, re.MULTILINE):
        label, *written = row
        said = re.findall(r'(\w+)=("\w+"|True|False)', label)
        options = {name: value.strip('"') if value.startswith('"') else value == "True" for name, value in said}
        role = "source" if label.startswith("source") else "sink"
        for name in re.findall(r"`(\w+)`", label):
            yield role, name, options, written


def test_the_table_of_guarantees_is_right():
    rows = list(table_of_guarantees())
    declared = {
        (role, name) for name in names("connectors") for role in ("source", "sink") if getattr(declaration(name), role)
    }
    assert {(role, name) for role, name, _, _ in rows} == declared
    assert {options["mode"] for _, name, options, _ in rows if name == "jdbc"} == {"insert", "upsert", "outbox"}
    for role, name, options, written in rows:
        assert written == [kept_by(role, name, options, guarantee) for guarantee in Guarantee], (role, name, options)


@pytest.mark.parametrize("name", FORMATS)
def test_every_option_of_a_format_is_in_its_section(name):
    page = (ROOT / "docs/reference/formats.md").read_text()
    section = page.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
    table = section.partition("| option | default | meaning |\n")[2].partition("\n\n")[0]
    options = DECODE_OPTIONS[name] | ENCODE_OPTIONS[name]
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == options.keys()
