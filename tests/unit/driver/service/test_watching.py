"""What a driver decides about its node and its memory."""

import os

import pytest

from millstream.driver.service.failure import error_facts, is_out_of_memory
from millstream.driver.service.memory import Pressure, pressure, session_bytes
from millstream.driver.service.renewals import Renewals, Standing, standing
from millstream.errors import ExternalFailure, StepFailed


@pytest.mark.parametrize(
    ("silent", "left", "stands"),
    [
        (0.0, 15.0, Standing.HELD),
        (9.9, 15.0, Standing.HELD),
        (10.0, 15.0, Standing.SILENT),
        (4.0, 4.0, Standing.SILENT),  # the lease itself is over before the patience is
        (119.9, 15.0, Standing.SILENT),
        (120.0, 15.0, Standing.ORPHANED),
        (120.0, 1000.0, Standing.ORPHANED),
    ],
)
def test_how_a_run_stands_with_its_node(silent, left, stands):
    assert standing(1000.0 + silent, 1000.0, left=left, hold_after=10.0, end_after=120.0) is stands


def test_silence_counts_from_the_start_and_from_when_a_renewal_was_sent():
    now = [50.0]
    renewals = Renewals(hold_after=10.0, end_after=120.0, clock=lambda: now[0])
    assert renewals.may_publish()
    now[0] = 61.0
    assert not renewals.may_publish()
    renewals.renewed(15.0, sent=60.5)
    assert renewals.may_publish()
    now[0] = 75.0
    renewals.renewed(15.0, sent=62.0)  # read late, by a process that slept
    assert renewals.standing is Standing.SILENT
    renewals.renewed(15.0, sent=1e9)  # no renewal is of the future
    now[0] = 84.9
    assert renewals.may_publish()
    renewals.renewed(15.0, sent=70.0)  # nor does an older one undo a newer
    assert renewals.may_publish()
    now[0] = 85.1
    assert renewals.standing is Standing.SILENT
    now[0] = 75.0 + 120.0
    assert renewals.standing is Standing.ORPHANED


@pytest.mark.parametrize(
    ("used", "felt"),
    [
        (849, Pressure.NONE),
        (850, Pressure.WARN),
        (949, Pressure.WARN),
        (950, Pressure.STOP),
        (999, Pressure.STOP),
        (1000, Pressure.KILL),
    ],
)
def test_how_near_a_run_is_to_its_limit(used, felt):
    assert pressure(used, 1000) is felt


def test_the_memory_of_a_session_is_that_of_its_processes():
    held = session_bytes(os.getsid(0))
    block = bytearray(os.urandom(1 << 20) * 64)
    assert session_bytes(os.getsid(0)) - held > 40 << 20
    del block
    assert session_bytes(-1) == 0


def test_an_error_is_told_with_whose_affair_it_is():
    facts = error_facts(StepFailed("bad", code="RUN-001", step="s", found=1, known="k", hint="h"))
    assert facts == {
        "message": "bad", "code": "RUN-001", "step": "s", "found": "1", "known": "k", "hint": "h",
        "domain": "user", "retry": "never", "kind": "StepFailed", "oom": False,
    }  # fmt: skip
    assert error_facts(ExternalFailure("away"))["retry"] == "backoff"
    ours = error_facts(ZeroDivisionError("x"))
    assert (ours["domain"], ours["retry"], ours["kind"]) == ("internal", "never", "ZeroDivisionError")
    assert error_facts(OSError("disk"))["domain"] == "external"
    assert "hunter2" not in str(error_facts(ValueError("postgresql://me:hunter2@h/db")))


def test_memory_that_ran_out_is_told_apart():
    caused = ExternalFailure("the worker died")
    caused.__cause__ = RuntimeError("java.lang.OutOfMemoryError: Java heap space")
    assert is_out_of_memory(caused)
    assert is_out_of_memory(MemoryError())
    assert not is_out_of_memory(ExternalFailure("away"))
