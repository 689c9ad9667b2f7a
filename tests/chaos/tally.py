"""What happened in all rounds of a run, and its numbers."""

import collections
import dataclasses
import re
import statistics

WRONG = ("lost", "doubled", "foreign")
_WRONG_ROWS = re.compile(rf"I1 [^:]*: (\d+) rows ({'|'.join(WRONG)})")


@dataclasses.dataclass(kw_only=True)
class Tally:
    """What happened in all rounds."""

    rounds: int = 0
    checked: int = 0
    """Rounds that came to their end, so that their rows were compared."""
    kills: int = 0
    takeovers: int = 0
    pauses: int = 0
    faults: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    damage: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    sometimes: set = dataclasses.field(default_factory=set)
    rows: int = 0
    epochs: int = 0
    cold_starts: list = dataclasses.field(default_factory=list)
    recoveries: list = dataclasses.field(default_factory=list)
    problems: list = dataclasses.field(default_factory=list)

    def add(self, round_, fault_names):
        self.rounds += 1
        self.kills += round_.kills
        self.takeovers += round_.takeovers
        self.pauses += round_.pauses
        self.faults.update(fault_names)
        self.sometimes |= round_.sometimes
        self.rows += round_.workload.rows
        self.epochs += round_.progress()
        self.cold_starts += [round_.cold_start] if round_.cold_start else []
        self.recoveries += round_.recoveries
        damages = (entry for entry in round_.history.entries if entry["action"] == "damage")
        self.damage.update("recovered" if entry["outcome"] == "ok" else "refused" for entry in damages)

    def numbers(self):
        """The run in numbers."""
        wrong = collections.Counter()
        for entry in self.problems:
            for text in entry["problems"]:
                wrong.update(wrong_rows(text))
        return {
            "rounds": self.rounds,
            "rounds checked": self.checked,
            "kills": self.kills,
            "takeovers": self.takeovers,
            "pauses": self.pauses,
            "faults": sum(self.faults.values()),
            "rows": self.rows,
            "epochs": self.epochs,
            **{name: wrong[name] for name in WRONG},
            "rounds with problems": len(self.problems),
            "damage": dict(self.damage),
            "cold start seconds": _spread(self.cold_starts),
            "recovery seconds": _spread(self.recoveries),
        }


def wrong_rows(text):
    """How many rows a violation of I1 says were lost, doubled or foreign."""
    found = _WRONG_ROWS.match(text)
    return {found[2]: int(found[1])} if found else {}


def _spread(seconds):
    if not seconds:
        return {}
    return {"runs": len(seconds), "median": round(statistics.median(seconds), 2), "max": round(max(seconds), 2)}
