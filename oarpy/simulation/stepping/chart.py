"""The Gantt chart of a run so far: past bars, present holders of processors, and planned jobs."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

from oarpy.simulation.stepping.places import Bar, Rows, place_on, planned_bars

if TYPE_CHECKING:
    from oarpy.simulation.stepping.stepped_run import SteppedRun


class Chart:
    """Bars of a run, which is followed event by event.

    ``over`` only grows, and is the same whenever the run comes by again. So copies of a chart share it, and ``count``
    is the number of its bars that are over for this chart.
    """

    def __init__(self, run: SteppedRun) -> None:
        self.over: list[Bar] = []
        self.count = 0
        self._rows = {cluster.name: Rows([(0, cluster.procs)]) for cluster in run.clusters_now()}
        self._standing: dict[str, dict[Hashable, Bar]] = {name: {} for name in self._rows}

    def __getstate__(self) -> tuple[Any, ...]:
        """Leave out the list that copies share."""
        return self.count, self._rows, self._standing

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        """Restore a copy; its maker sets ``over``."""
        self.count, self._rows, self._standing = state

    def follow(self, run: SteppedRun, now: float) -> None:
        """Follow an event: end and begin the bars that it changed."""
        for name, keys in run.holders().items():
            standing, rows = self._standing[name], self._rows[name]
            if keys == standing.keys():
                continue
            for key in [key for key in standing if key not in keys]:
                bar = standing.pop(key)
                rows.give(bar.rows)
                if self.count == len(self.over):
                    self.over.append(bar._replace(end=now))
                self.count += 1
            for key in [key for key in keys if key not in standing]:
                place = run.held(name, key)
                standing[key] = Bar(place.job, name, place.start, place.end, place_on(rows, place))

    def past(self, since: int = 0) -> Sequence[Bar]:
        """Return the past bars, from a number on."""
        return self.over[since : self.count]

    def standing(self, cluster: str) -> list[Bar]:
        """Return the bars of the present holders of a cluster."""
        return list(self._standing[cluster].values())

    def clusters(self, run: SteppedRun, past: bool = True) -> list[dict[str, Any]]:
        """Return queues and bars of each cluster as objects of JSON; past bars only if ``past`` is set."""
        clusters = []
        for cluster in run.clusters_now():
            standing = self.standing(cluster.name)
            bars = {
                "running": standing,
                "planned": planned_bars(self._rows[cluster.name], standing, cluster),
            }
            if past:
                bars = {"over": [bar for bar in self.past() if bar.cluster == cluster.name], **bars}
            entry: dict[str, Any] = {"name": cluster.name, "procs": cluster.procs, "queue": list(cluster.queue)}
            clusters.append(entry | {key: [bar_entry(bar) for bar in some] for key, some in bars.items()})
        return clusters


def bar_entry(bar: Bar) -> dict[str, Any]:
    """Return a bar as an object of JSON."""
    return {"job": bar.job, "start": bar.start, "end": bar.end, "rows": bar.rows}
