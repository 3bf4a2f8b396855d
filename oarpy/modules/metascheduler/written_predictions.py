"""The predictions that the meta-scheduler wrote for waiting jobs, so that it writes only changes, and fewer in a burst.

In a burst each start moves the predictions of all jobs that still wait. One writing a second serves readers well, so
many moves are merged with the moves of the passes right after. New predictions are written at once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from oarpy.model.runs import runs
from oarpy.scheduler.resources.platform import Platform
from oarpy.store.passes.decisions import Prediction


class RangeTexts:
    """Remembers the texts that this pass and the pass before requested."""

    def __init__(self) -> None:
        self._platform = Platform.build([], [])
        self._before: dict[int, str] = {}
        self._known: dict[int, str] = {}

    def begin(self, platform: Platform) -> None:
        """Begin a pass: bits are those of ``platform`` from now on."""
        self._before = self._known if platform is self._platform else {}
        self._platform, self._known = platform, {}

    def of(self, bits: int) -> str:
        """Return the ids of a set as an ``int4multirange``."""
        text = self._known.get(bits)
        if text is None:
            text = self._before.get(bits) or multirange(self._platform.ids_of(bits))
            self._known[bits] = text
        return text


def multirange(ids: Sequence[int]) -> str:
    """Write ids as an ``int4multirange``.

    >>> multirange([1, 2, 3, 7])
    '{[1,3],[7,7]}'
    """
    return "{" + ",".join(f"[{first},{last}]" for first, last in runs(ids)) + "}"


MANY = 100
"""Moved predictions up to which all are written in the pass that finds them."""
PERIOD = 1.0
"""Seconds between two writings of more than that."""

_TOLERANCE = 2
"""Seconds by which a predicted start, or end, may move before it is written again."""


@dataclass(frozen=True, slots=True)
class Writing:
    """The predictions that a pass writes (``changed``), the table after that, and whether moves are kept for later.

    ``left`` has the jobs of the table that do not wait any more; None: it is not known which jobs the table has.
    """

    changed: Sequence[Prediction]
    told: Mapping[int, Prediction]
    owing: bool
    left: frozenset[int] | None


class ToldPredictions:
    """Remembers by job the table of predictions. Instants are of one monotonic clock, in seconds."""

    def __init__(self) -> None:
        self._told: Mapping[int, Prediction] = {}
        self._known = False
        self._at = float("-inf")

    def forget(self) -> None:
        """Forget what the table holds: the next pass writes every prediction."""
        self._told, self._known = {}, False

    def compare(
        self,
        predictions: Mapping[int, Prediction],
        moment: float,
        unseen: frozenset[int] = frozenset(),
        gone: Collection[int] | None = None,
    ) -> Writing:
        """Return the changes of ``predictions``, of all waiting jobs but those ``unseen``, to write at ``moment``.

        ``gone`` are the jobs that no longer wait; None: the method finds them.
        """
        changed = [
            prediction for prediction in predictions.values() if _differs(prediction, self._told.get(prediction.job))
        ]
        moved = {
            prediction.job
            for prediction in changed
            if prediction.job in self._told and prediction.verdict == self._told[prediction.job].verdict
        }
        owing = len(moved) > MANY and moment < self._at + PERIOD
        if owing:
            changed = [prediction for prediction in changed if prediction.job not in moved]
        if gone is None:
            predicted = {job: self._told[job] for job in (*predictions, *unseen) if job in self._told}
            gone = self._told.keys() - predicted.keys()
        else:
            predicted = dict(self._told)
            gone = [job for job in gone if predicted.pop(job, None) is not None]
        left = frozenset(gone) if self._known else None
        predicted.update((prediction.job, prediction) for prediction in changed)
        return Writing(changed, predicted, owing, left)

    def committed(self, writing: Writing, moment: float) -> float | None:
        """Note that a writing is in the table; return the seconds until the next is due, None when none is owed."""
        self._told, self._known = writing.told, True
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
    return _moved(new.start, old.start) or _moved(new.end, old.end)


def _moved(new: float | None, old: float | None) -> bool:
    if new is None or old is None:
        return new is not old
    return abs(new - old) >= _TOLERANCE
