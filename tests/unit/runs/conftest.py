"""Input of each mode; the stand-ins of sources are known while a test runs."""

import pytest
from tests.unit.runs import stand_ins
from tests.unit.runs.inputs import INPUTS


@pytest.fixture(autouse=True)
def known_stand_ins():
    stand_ins.register()
    yield
    stand_ins.forget()


@pytest.fixture(params=INPUTS)
def data(request, tmp_path):
    """Rows that a job of the mode reads."""
    return INPUTS[request.param](tmp_path / "input")
