"""What a service could not do ends a command alike, whatever form its answer has."""

import contextlib
from types import SimpleNamespace

import pytest
import typer

from millstream.cli.service import either

FAILED = SimpleNamespace(status="failed", result=None, error={"code": "SAVE-006", "message": "no", "hint": "another"})


@pytest.fixture
def service(monkeypatch):
    runs = SimpleNamespace(stop=lambda *asked, **more: "operation")
    client = SimpleNamespace(runs=runs, wait=lambda operation, **more: FAILED)
    monkeypatch.setattr(either, "connect", lambda context: contextlib.nullcontext(client))
    monkeypatch.setattr(either, "run_named", lambda client, target: SimpleNamespace(id="run"))


@pytest.mark.parametrize("as_json", [False, True])
def test_the_exit_code_does_not_depend_on_the_form(service, as_json, capsys):
    with pytest.raises(typer.Exit) as ended:
        either.ask_service("savepoint", "orders", None, to=None, native=False, timeout=1, as_json=as_json)
    told = capsys.readouterr()
    assert (ended.value.exit_code, told.out) == (1, "")
    assert "SAVE-006" in told.err
    assert "another" in told.err
