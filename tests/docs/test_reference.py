"""The reference names everything public, with every parameter, and every field of what is stored."""

import dataclasses
import inspect
import re

import pytest
from tests.docs.pages import ROOT

import millstream as ms
from millstream.checkpoint.manifest import EpochManifest
from millstream.plan.deployment import Deployment, MemoryBudget
from millstream.runtime.counts import StepCounts
from millstream.runtime.epoch import EpochPlan

PAGE = (ROOT / "docs/reference/api.md").read_text()
CLASSES = [
    ms.DataStream,
    ms.KeyedStream,
    ms.WindowedStream,
    ms.Job,
    ms.ValueState,
    ms.ListState,
    ms.MapState,
    ms.Context,
]
INTERNAL = {
    ms.Job: {"add", "add_dead_letter", "add_sink", "from_model", "keyed_stream", "model", "stream"},
    ms.DataStream: {"as_input"},
    ms.KeyedStream: {"label", "then"},
}
"""Methods that the package calls itself."""


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
    public -= INTERNAL.get(kind, set()) | {"bound_to", "describe"}
    section = PAGE[PAGE.index(heading_of(kind)) :]
    section = section[: section.find("\n## ", 3)]
    assert {name for name in public if f"`{name}(" not in section and f".{name}(" not in section} == set()


def heading_of(kind):
    return next(
        line for line in PAGE.splitlines() if line.startswith("## ") and kind.__name__ in re.split(r"\W+", line)
    )


@pytest.mark.parametrize("kind", [EpochManifest, EpochPlan, StepCounts], ids=lambda kind: kind.__name__)
def test_every_stored_field_is_explained(kind):
    page = (ROOT / "docs/reference/checkpoint-layout.md").read_text()
    assert [field for field in kind.__struct_fields__ if f"`{field}`" not in page] == []


@pytest.mark.parametrize("kind", [Deployment, MemoryBudget], ids=lambda kind: kind.__name__)
def test_every_setting_is_explained(kind):
    page = (ROOT / "docs/reference/configuration.md").read_text()
    assert [field.name for field in dataclasses.fields(kind) if f"`{field.name}`" not in page] == []
