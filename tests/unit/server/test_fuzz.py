"""A small round of the requests that `python -m tests.unit.server.fuzz 10000` makes."""

import random

import pytest
from tests.unit.server.fuzz import World, fuzz


@pytest.mark.filterwarnings("ignore")
def test_no_request_breaks_the_server_or_passes_without_a_token(metadata, tmp_path):
    chosen = random.randrange(10**6)
    findings = fuzz(World(metadata, tmp_path), 300, chosen)
    assert findings.broken == [], f"seed {chosen}"
    assert findings.passed == [], f"seed {chosen}"
    assert findings.cases >= 300
    assert {200, 401, 404, 422} <= findings.statuses.keys()
