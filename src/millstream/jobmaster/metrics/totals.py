"""What a run has done so far, as a value: it grows by every epoch that is published."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from millstream.api.functions.user_metrics import Spread, UserMetrics, empty_spread, gathered
from millstream.api.running.result import EpochSummary, RunResult, dropped_rows
from millstream.model.counts import Counts, total

DURATIONS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 3600.0)
"""Bounds of durations, in seconds: the limits of the alert rules are among them, so that quantiles near them are right."""
Spreads = Mapping[str, Spread]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """What a run has done so far, and its newest epoch."""

    job: str
    guarantee: str
    mode: str
    epochs: int = 0
    rows_in: int = 0
    rows_out: int = 0
    failures: int = 0
    newest: EpochSummary | None = None
    published: float | None = None
    """When the newest epoch was published, in seconds since 1970."""
    before: float | None = None
    """When the one before it was."""
    counts: Counts = dataclasses.field(default_factory=dict)
    phases: Spreads = dataclasses.field(default_factory=dict)
    latency: Spreads = dataclasses.field(default_factory=dict)
    """Rows of each sink."""
    metrics: UserMetrics = dataclasses.field(default_factory=dict)
    dropped: Mapping[str, Mapping[str, int]] = dataclasses.field(default_factory=dict)
    shuffled: int | None = None

    def after(self, summary: EpochSummary, *, at: float) -> Totals:
        """The totals with one more epoch, published at an instant."""
        return dataclasses.replace(
            self,
            guarantee=summary.guarantee,
            epochs=self.epochs + 1,
            rows_in=self.rows_in + summary.rows_in,
            rows_out=self.rows_out + summary.rows_out,
            failures=summary.failures,
            newest=summary,
            published=at,
            before=self.published,
            counts=total([self.counts, summary.counts]),
            phases=_longer(self.phases, {**summary.phases, "total": summary.seconds}, {}),
            latency=_longer(self.latency, summary.latency, summary.counts),
            metrics=gathered([self.metrics, summary.metrics]),
            dropped=dropped_rows([self.dropped, summary.dropped]),
            shuffled=self.shuffled if summary.shuffled is None else (self.shuffled or 0) + summary.shuffled,
        )

    def ended(self, result: RunResult) -> Totals:
        """The totals of a run that has ended, as its result tells them."""
        names = ("guarantee", "mode", "epochs", "rows_in", "rows_out", "failures", "metrics", "dropped", "counts")
        told: dict[str, Any] = {name: getattr(result, name) for name in names}
        return dataclasses.replace(self, **told)


def _longer(spreads: Spreads, more: Mapping[str, float], counts: Counts) -> Spreads:
    """Spreads with one more value each, or one for each row that a step of that name took."""
    grown = dict(spreads)
    for name, seconds in more.items():
        rows = counts[name].rows_in if name in counts else 1
        spread, seen = empty_spread(DURATIONS), empty_spread(DURATIONS)
        seen.observe(seconds)
        spread.counts, spread.sum = [rows * each for each in seen.counts], rows * seconds
        if name in grown:
            spread.add(grown[name])
        grown[name] = spread
    return grown
