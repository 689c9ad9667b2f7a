"""`millstream logs -f` against a service that a test plays."""

import contextlib
import types

from millstream.cli.service import runs


class Ending:
    """A run that says its last words when somebody has looked at its log, and ends."""

    def __init__(self):
        self.text, self.status = "begins\n", "RUNNING"
        self.runs = self

    def get(self, run):
        return types.SimpleNamespace(id=run, status=self.status)

    def log(self, run, *, stream, start, limit):
        text = self.text[start : start + limit]
        part = types.SimpleNamespace(text=text, next=start + len(text), size=len(self.text))
        self.text, self.status = "begins\nfailed: why\n", "DEAD"
        return part


def test_the_last_words_of_a_run_are_shown(monkeypatch, capsys):
    client = Ending()
    monkeypatch.setattr(runs, "connect", lambda context: contextlib.nullcontext(client))
    monkeypatch.setattr(runs, "run_named", lambda client, run: types.SimpleNamespace(id=run))
    monkeypatch.setattr(runs, "_LOOK_SECONDS", 0)
    runs.logs("r", follow=True)
    assert capsys.readouterr().out == "begins\nfailed: why\n"
