"""The pictures in the documentation are those of the code."""

import importlib.util
from pathlib import Path


def test_the_pictures_are_current():
    script = Path(__file__).parents[3] / "scripts" / "control_pictures.py"
    spec = importlib.util.spec_from_file_location("control_pictures", script)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    assert made.PAGE.read_text() == made.page(), "run python scripts/control_pictures.py"
