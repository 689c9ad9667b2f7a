"""What a person sees who runs a script with a mistake in it: their own lines, the public call, the message."""

import inspect
import os
import re
import subprocess
import sys
import types
from contextlib import contextmanager
from pathlib import Path

import pytest

import millstream as ms
import millstream.testing
from millstream.api.streams.connected import ConnectedStreams
from millstream.api.streams.matched import PatternStream
from millstream.api.values.pattern import Pattern
from millstream.errors import ExternalFailure, InvalidStep
from millstream.testing import JobOutput, run_job
from millstream.tracebacks import account_of, full_tracebacks, owner_of, public

PACKAGE = str(Path(ms.__file__).parent)
_FRAME = re.compile(r'^  File "([^"]+)", line \d+, in (\S+)$', re.MULTILINE)
START = """
import millstream as ms
from millstream.testing import run_job

def broken(row):
    return {"user": row["usr"]}

job = ms.Job("t")
rows = job.source("orders", ms.memory([{"user": "a", "amount": 1}]), schema="user string, amount long")
"""
FAILING = START + 'rows.map(broken, schema="user string").sink("out", ms.collect("x"))\n'


def ran(folder, text, **environment):
    """What a script prints on stderr."""
    script = folder / "job.py"
    script.write_text(text)
    inherited = {name: value for name, value in os.environ.items() if name != "MILLSTREAM_DEBUG"}
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, env=inherited | environment, cwd=folder
    )
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stderr


def frames(text):
    """The functions of a printed traceback, those of ours in brackets."""
    return [f"[{name}]" if file.startswith(PACKAGE) else name for file, name in _FRAME.findall(text)]


WRONG = {
    "a typo in a column": ('rows.filter("amont > 1")', ["<module>", "[filter]"]),
    "a typo in a statement": ('rows.sql("SELECT usr FROM stream")', ["<module>", "[sql]"]),
    "a wrong key": ('rows.key_by("usr")', ["<module>", "[key_by]"]),
    "a wrong aggregate": ('rows.key_by("user").aggregate(n=ms.sum("amont"))', ["<module>", "[aggregate]"]),
    "a wrong window": ('ms.tumbling("x")', ["<module>", "[tumbling]"]),
    "a wrong pattern": ('ms.pattern.begin("a").times(-1)', ["<module>", "[times]"]),
    "a wrong trigger": ("ms.trigger.count(0)", ["<module>", "[count]"]),
    "a wrong name": ('ms.Job("no name")', ["<module>", "[__init__]"]),
    "a wrong property": ("rows.late", ["<module>", "[late]"]),
    "a wrong file": ('ms.load_job("nowhere.yaml")', ["<module>", "[load_job]"]),
    "a wrong folder": ('ms.read_files("nowhere")', ["<module>", "[read_files]"]),
    "a job without a sink": ("job.run(local=True)", ["<module>", "[run]"]),
    "a wrong source in a test": ('run_job(job, {"nothing": []})', ["<module>", "[run_job]"]),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_mistake_shows_the_line_and_the_public_call(case, tmp_path):
    call, expected = WRONG[case]
    shown = ran(tmp_path, START + call + "\n")
    assert frames(shown) == expected
    assert re.search(r"^millstream\.errors\.\w+: \[[A-Z]+-\d+\] ", shown, re.MULTILINE)


RUNS = {
    "run": ("job.run(local=True)", "[run]"),
    "start": ("running = job.start(local=True)\nrunning.wait()", "[wait]"),
    "harness": ("run_job(job)", "[run_job]"),
}


@pytest.mark.parametrize("case", RUNS)
def test_a_failing_step_shows_the_users_function_and_the_public_call(case, tmp_path):
    call, expected = RUNS[case]
    shown = ran(tmp_path, FAILING + call + "\n")
    assert frames(shown) == ["broken", "<module>", expected]
    assert "KeyError: 'usr'\n\nThe above exception was the direct cause" in shown
    assert "[RUN-001] step 'orders.map': KeyError: 'usr' at job.py:6 in broken" in shown


def test_asked_twice_a_failed_run_shows_one_asker(tmp_path):
    twice = "running = job.start(local=True)\ntry:\n    running.wait()\nexcept ms.MillstreamError:\n    pass\nrunning.wait()\n"
    assert frames(ran(tmp_path, FAILING + twice)) == ["broken", "<module>", "[wait]"]


def test_all_frames_are_shown_to_those_who_debug(tmp_path):
    shown = frames(ran(tmp_path, FAILING + "job.run(local=True)\n", MILLSTREAM_DEBUG="1"))
    assert {"broken", "<module>", "[run]", "[run_source_task]", "[_map_rows]"} <= set(shown)
    assert len(shown) > 15
    assert len(frames(ran(tmp_path, FAILING + "job.run(local=True)\n", MILLSTREAM_DEBUG="0"))) == 3


def test_the_command_shows_all_frames_with_debug(tmp_path):
    (tmp_path / "job.py").write_text(FAILING)
    command = [sys.executable, "-m", "millstream.cli.main", "run", str(tmp_path / "job.py"), "--local"]
    short = subprocess.run(command, capture_output=True, text=True)
    full = subprocess.run([*command, "--debug"], capture_output=True, text=True)
    by_variable = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "MILLSTREAM_DEBUG": "1"})
    assert frames(short.stderr) == []
    assert "[_map_rows]" in frames(full.stderr)
    assert "[_map_rows]" in frames(by_variable.stderr)


def call_of_ours(inner):
    """A function that counts as one of the package's, and calls `inner`."""
    scope = {}
    exec(compile("def ours(*args):\n    return inner(*args)\n", f"{PACKAGE}/made.py", "exec"), {"inner": inner}, scope)
    return scope["ours"]


def refuse(*_):
    msg = "refused"
    raise InvalidStep(msg)


def names(error):
    found, trace = [], error.__traceback__
    while trace is not None:
        found.append(trace.tb_frame.f_code.co_name)
        trace = trace.tb_next
    return found


def raised(call, *args):
    with pytest.raises(Exception) as caught:
        call(*args)
    return caught.value


def test_frames_of_the_user_between_ours_stay():
    entry = public(call_of_ours(call_of_ours(lambda: call_of_ours(call_of_ours(refuse))())))
    assert names(raised(entry)) == ["raised", "ours", "<lambda>", "ours", "refuse"]


def test_other_errors_keep_their_frames():
    entry = public(call_of_ours(call_of_ours(lambda: {}["a"])))
    assert names(raised(entry)) == ["raised", "call", "_called", "ours", "ours", "<lambda>"]


def test_causes_lose_our_frames_and_hidden_ones_are_left_alone():
    def failing():
        try:
            call_of_ours(call_of_ours(lambda: {}["a"]))()
        except KeyError as problem:
            msg = "because"
            raise ExternalFailure(msg) from problem

    def hiding():
        try:
            failing()
        except ExternalFailure:
            msg = "hidden"
            raise InvalidStep(msg) from None

    error = raised(public(failing))
    assert names(error.__cause__) == ["failing", "ours", "<lambda>"]
    hidden = raised(public(hiding))
    assert hidden.__suppress_context__
    assert names(hidden.__context__.__cause__) == ["failing", "ours", "ours", "<lambda>"]


def test_errors_that_cause_each_other_do_not_go_round_for_ever():
    def circular():
        one, other = InvalidStep("one"), InvalidStep("other")
        one.__cause__, other.__cause__ = other, one
        raise one

    assert raised(public(circular)).message == "one"


def test_generators_and_context_managers_are_shortened():
    inner = call_of_ours(call_of_ours(refuse))

    @public
    def numbers():
        yield 1
        inner()

    assert names(raised(list, numbers())) == ["raised", "numbers", "ours", "refuse"]
    assert inspect.isgeneratorfunction(numbers)

    @contextmanager
    @public
    def opened():
        inner()
        yield

    def enter():
        with opened():
            pass

    assert [name for name in names(raised(enter)) if name not in {"__enter__", "raised"}] == [
        "enter",
        "opened",
        "ours",
        "refuse",
    ]


def test_methods_of_every_kind_are_shortened():
    class Surface:
        __slots__ = ()
        method = call_of_ours(call_of_ours(refuse))
        made = classmethod(call_of_ours(call_of_ours(refuse)))
        static = staticmethod(call_of_ours(call_of_ours(refuse)))
        shown = property(call_of_ours(call_of_ours(refuse)))

    surface = public(Surface)()
    for call in (surface.method, Surface.made, Surface.static, lambda: surface.shown):
        assert names(raised(call)).count("ours") == 1


def test_whose_code_a_file_holds():
    assert owner_of(f"{PACKAGE}/api/job.py") == "ours"
    assert owner_of(inspect.getsourcefile(inspect)) == "library"
    assert owner_of("/x/lib/python3.11/site-packages/pyspark/worker.py") == "library"
    assert owner_of("/x/lib/python3.11/site-packages/shop/jobs.py") == "theirs"
    assert owner_of("<stdin>") == "theirs"


def test_what_a_worker_tells_is_the_users_part():
    error = raised(call_of_ours(call_of_ours(lambda: {}["a"])))
    failed = ExternalFailure("failed")
    failed.__cause__ = error.with_traceback(error.__traceback__.tb_next)
    told = account_of(failed)
    assert frames(told) == ["<lambda>"]
    assert told.endswith("KeyError: 'a'")
    assert account_of(ExternalFailure("alone")) is None


def test_debugging_ends_with_its_block(monkeypatch):
    monkeypatch.delenv("MILLSTREAM_DEBUG", raising=False)
    entry = public(call_of_ours(call_of_ours(refuse)))
    with full_tracebacks():
        assert names(raised(entry)).count("ours") == 2
        assert os.environ["MILLSTREAM_DEBUG"] == "1"  # workers of Spark inherit it
        with full_tracebacks(wanted=False):
            assert names(raised(entry)).count("ours") == 2
    assert "MILLSTREAM_DEBUG" not in os.environ
    assert names(raised(entry)).count("ours") == 1


SURFACE = [ms.Job, ms.DataStream, ms.KeyedStream, ms.WindowedStream, ms.RunningJob, ms.EpochPolicy, JobOutput]
SURFACE += [ConnectedStreams, Pattern, PatternStream]


@pytest.mark.parametrize("kind", SURFACE, ids=lambda kind: kind.__name__)
def test_every_public_method_is_marked(kind):
    plain = [name for name, member in vars(kind).items() if not name.startswith("_") and not is_marked(member)]
    assert plain == []


def is_marked(member):
    member = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
    return not isinstance(member, types.FunctionType) or hasattr(member, "__wrapped__")


def test_every_public_function_is_marked():
    found = [getattr(ms, name) for name in ms.__all__]
    found += [each for module in found if inspect.ismodule(module) for each in own_functions(module)]
    assert [each for each in [*found, run_job] if inspect.isfunction(each) and not is_marked(each)] == []
    assert len([each for each in found if inspect.isfunction(each)]) > 40


def own_functions(module):
    return [each for name, each in vars(module).items() if not name.startswith("_") and is_own(each, module)]


def is_own(each, module):
    return inspect.isfunction(each) and each.__module__ == module.__name__


def test_a_public_function_is_found_under_its_name():
    assert (ms.sum.__module__, ms.sum.__qualname__) == ("millstream", "sum")
    assert ms.print.__qualname__ == "print"
    assert ms.read_files is ms.read_files
