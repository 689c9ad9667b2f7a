"""The job file in the reference compiles."""

import re
from pathlib import Path

from millstream.api.jobfile.load import load_job

PAGE = Path(__file__).parents[3] / "docs/reference/declarative.md"


def test_the_example_of_the_reference_compiles():
    text = re.search(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL).group(1)
    layers = load_job(text).compile()
    assert layers.partitioned.depth == 1
    assert [step.id for step in layers.model.steps if step.operation.kind == "sink"] == [
        "orders.dead",
        "totals-out",
        "late",
    ]
