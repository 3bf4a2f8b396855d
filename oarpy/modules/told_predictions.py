"""What the meta-scheduler wrote about waiting jobs, so that it writes only what changed, and in a burst not every time.

In a burst each start moves the predictions of all jobs that still wait. Readers are served well by one writing a
second, so many moves are merged with those of the passes right after; whatever is new is written at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from oarpy.store.decisions import Prediction

MANY = 100
"""Moved predictions up to which all are written in the pass that finds them."""
PERIOD = 1.0
"""Seconds between two writings of more than that."""

_TOLERANCE = 2
"""Seconds by which a predicted start may move before it is written again."""


@dataclass(frozen=True, slots=True)
class Writing:
    """What a pass writes (``changed``), what the table says then, and whether moves are kept for a later pass."""

    changed: Sequence[Prediction]
    told: Mapping[int, Prediction]
    owing: bool


class ToldPredictions:
    """Remembers by job what the table of predictions says. Instants are of one monotonic clock, in seconds."""

    def __init__(self) -> None:
        self._told: Mapping[int, Prediction] = {}
        self._at = float("-inf")

    def forget(self) -> None:
        """Believe nothing of the table any more: all is written again."""
        self._told = {}

    def compare(
        self, predictions: Mapping[int, Prediction], moment: float, unseen: frozenset[int] = frozenset()
    ) -> Writing:
        """Return what of ``predictions``, of all waiting jobs but those ``unseen``, is to be written at ``moment``."""
        changed = [one for one in predictions.values() if _differs(one, self._told.get(one.job))]
        moved = {one.job for one in changed if one.job in self._told and one.verdict == self._told[one.job].verdict}
        owing = len(moved) > MANY and moment < self._at + PERIOD
        if owing:
            changed = [one for one in changed if one.job not in moved]
        told = {job: self._told[job] for job in (*predictions, *unseen) if job in self._told}
        return Writing(changed, told | {one.job: one for one in changed}, owing)

    def committed(self, writing: Writing, moment: float) -> float | None:
        """Note that a writing is in the table; return the seconds until the next is due, None when none is owed."""
        self._told = writing.told
        if not writing.owing:
            if writing.changed:
                self._at = moment
            return None
        return max(0.0, self._at + PERIOD - moment)


def _differs(new: Prediction, old: Prediction | None) -> bool:
    if old is None or (new.verdict, new.reason, new.moldable, new.resources) != (
        old.verdict,
        old.reason,
        old.moldable,
        old.resources,
    ):
        return True
    if new.start is None or old.start is None:
        return new.start is not old.start
    return abs(new.start - old.start) >= _TOLERANCE
