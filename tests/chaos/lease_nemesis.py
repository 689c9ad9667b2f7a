"""Faults of the lease: writes that land and are reported as failed."""

from pathlib import Path

from tests.chaos.process import await_true
from tests.chaos.round import Anomaly

UNHEARD = ("lease_taken:1:enospc", "lease_written:2:raise", "lease_written:4:enospc")
"""Taking the lease, a renewal and a later one. Never two in a row: a run whose renewals all fail may end."""
TERM = 3_000
"""Long enough that on a busy machine the thread renews, and not an epoch that would end with the failure."""


def unheard(round_):
    """The lease is taken and renewed, and the store says that it failed: the run goes on with the token it has."""
    round_.feed(10)
    log = Path(f"{round_.folder}.logs") / "failpoints"
    before = _noted(log)
    usual, round_.config["lease_term"] = round_.config["lease_term"], TERM
    process = round_.start(",".join(UNHEARD))
    round_.config["lease_term"] = usual
    await_true(lambda: len(_noted(log)) >= len(before) + len(UNHEARD), round_.patience, "the lost replies")
    token, beat = round_.view().lease().token, round_.view().lease().beat
    round_.await_epochs(process, 2)
    await_true(lambda: round_.view().lease().beat >= beat + 2, round_.patience, "the renewals after them")
    if process.code is not None or round_.view().lease().token != token:
        raise Anomaly(f"a run lost the lease that it held: {process.code} {process.end}")
    round_.sometimes |= {"lease written unheard", f"lease written unheard in {round_.store}"}
    round_.killed(process, "kill after lost replies to the lease")


def _noted(log):
    return log.read_text().splitlines() if log.exists() else []
