"""The commands of a page, run as a reader would: those that are quick, those that are killed, and servers that stay."""

import contextlib
import os
import re
import shlex
import socket
import subprocess
import sys
import time

from tests.docs.pages import ROOT
from typer.testing import CliRunner

from millstream.cli.main import app

LOCAL_COMMANDS = ("connectors", "plan", "runs", "validate", "version")
_SETTING = re.compile(r"[A-Z_]+=\S+")
_SECONDS = 60
_KILLED = -9


def commands(block):
    """The `millstream` commands of a block that need neither Spark nor time, with the variables that are set for them."""
    if block.language != "sh":
        return []
    lines = [shlex.split(line, comments=True) for line in block.text.splitlines()]
    found = [(_settings(words), [word for word in words if not _SETTING.fullmatch(word)]) for words in lines]
    ours = [(settings, words[1:]) for settings, words in found if words[:1] == ["millstream"] and len(words) > 1]
    return [(settings, words) for settings, words in ours if words[0] in LOCAL_COMMANDS or "--local" in words]


def _settings(words):
    return dict(word.split("=", 1) for word in words if _SETTING.fullmatch(word) and words.index(word) == 0)


def scripts(block):
    """The files that a block marked `run` runs: `python send_orders.py 1 1000`."""
    lines = [shlex.split(line, comments=True) for line in block.text.splitlines()] if "run" in block.marks else []
    return [words[1:] for words in lines if words[:1] == ["python"] and words[-1] != "&"]


def run_script(words):
    """Run a file that the page wrote."""
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=_SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr


def servers(block):
    """The files that a block starts in the background: `python shop_api.py &`."""
    return re.findall(r"^python (\w+\.py) &$", block.text, re.MULTILINE) if block.language == "sh" else []


def run_command(settings, words):
    """What a command prints; one with variables has a process of its own, and may be killed if they say so."""
    if settings:
        return _run_apart(settings, words)
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, f"millstream {shlex.join(words)}: {result.output}"
    return result.output


def _run_apart(settings, words):
    command = [sys.executable, "-c", "from millstream.cli.main import app; app()", *words]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), **settings}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_SECONDS)
    is_killed = any(":kill" in value for value in settings.values())
    assert done.returncode == (_KILLED if is_killed else 0), done.stdout + done.stderr
    return done.stdout


@contextlib.contextmanager
def serving(file, port):
    """A file that is a server, until the page has ended."""
    started = subprocess.Popen([sys.executable, file])
    try:
        until = time.monotonic() + _SECONDS
        while not _answers(port):
            assert started.poll() is None, f"{file} has ended"
            assert time.monotonic() < until, f"{file} does not answer"
            time.sleep(0.02)
        yield
    finally:
        started.terminate()
        started.wait(_SECONDS)


def _answers(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def as_shown(text):
    """Lines without the spaces that fill a column."""
    return "".join(line.rstrip() + "\n" for line in text.splitlines())
