"""The mode of a job stands in its plan, its JSON, its manifests, its result and its figures, and in no fingerprint."""

import dataclasses
import sys

import pytest

import millstream as ms
from millstream import registry
from millstream.api.jobfile.load import load_job
from millstream.connectors.memory.spec import DECLARATION
from millstream.inspect.checkpoint import open_view
from millstream.jobmaster.metrics.file import prometheus
from millstream.jobmaster.metrics.totals import Totals
from millstream.model.mode import Mode
from millstream.plan.serialize import from_json, to_json

PAGES = dataclasses.replace(
    DECLARATION, name="pages", source=dataclasses.replace(DECLARATION.source, mode=Mode.BATCH_ROLLER)
)


@pytest.fixture(autouse=True)
def pages(monkeypatch):
    monkeypatch.setitem(registry._OURS["connectors"], "pages", f"{__name__}:PAGES")
    monkeypatch.setitem(sys.modules, __name__, sys.modules[__name__])


def job_of(connector="pages", **options):
    job = ms.Job("paged", **options)
    spec = dataclasses.replace(ms.memory([{"n": 1}]), name=connector)
    job.source("rows", spec, schema="n long").sink("out", ms.collect("paged"))
    return job


def test_every_plan_shows_it():
    job = job_of()
    assert job.compile().deployment.mode is Mode.BATCH_ROLLER
    for layer in ("partitioned", "deployment"):
        assert "  mode         BATCH_ROLLER: page by page until there is none left\n" in job.explain(layer)
    assert to_json(job.compile())["derived"]["deployment"]["mode"] == "BATCH_ROLLER"


def test_what_the_author_said_goes_through_json_and_job_files():
    job = job_of(mode="BATCH_ROLLER")
    again = ms.Job.from_json(job.to_json())
    assert again.model == job.model
    assert from_json(to_json(job.compile())).deployment.mode is Mode.BATCH_ROLLER
    source = "{source: s, from: {memory: {rows: []}}, schema: n long}"
    text = f"job: j\nmode: BATCH_ROLLER\nsteps:\n- {source}\n- {{sink: o, to: {{collect: {{name: c}}}}}}\n"
    with pytest.raises(ms.MillstreamError, match="do not fit mode BATCH_ROLLER"):
        load_job(text).compile()


def test_definitions_from_before_there_were_modes_are_read():
    stored = job_of().to_json()
    del stored["requirements"]["mode"]
    assert ms.Job.from_json(stored).compile().deployment.mode is Mode.BATCH_ROLLER


def test_it_is_recorded_and_no_part_of_the_fingerprint(tmp_path):
    said, unsaid = job_of("memory", mode="STREAMING"), job_of("memory")
    assert said.compile().partitioned.fingerprint == unsaid.compile().partitioned.fingerprint
    result = job_of().run(local=True, checkpoint=tmp_path)
    assert result.mode == "BATCH_ROLLER"
    with open_view(tmp_path, None, read_only=True) as view:
        assert view.manifest().mode == "BATCH_ROLLER"
    totals = Totals(job="paged", guarantee="", mode="").ended(result)
    assert 'millstream_mode{job_name="paged",mode="BATCH_ROLLER"} 1\n' in prometheus(totals, now=0)
