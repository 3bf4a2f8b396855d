"""Each waiting job gets once an interval in which it will start, when a pass first foresees a start for it.

The intervals stay in the table of first predictions, and later ones are learnt from the starts that followed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from oarpy.cluster_state.past_starts import CHANCE, learnt
from oarpy.scheduler.forecast.start_intervals import StartForecast
from oarpy.scheduler.snapshot import Snapshot
from oarpy.store.database import Connection
from oarpy.store.passes.decisions import Prediction
from oarpy.store.passes.first_predictions import FirstPrediction, note

_MOST_FORGOTTEN = 10_000
"""Jobs that do not wait any more are remembered up to this number."""


class ToldStarts:
    """Remembers the jobs that have a first prediction, so that a pass writes only new ones."""

    def __init__(self) -> None:
        self._forecast = StartForecast()
        self._told: set[int] = set()

    def forget(self) -> None:
        """Forget which jobs have a first prediction in the table."""
        self._told = set()

    def learn(self, connection: Connection) -> None:
        """Base the predictions on these latest starts from now on."""
        self._forecast = learnt(connection)

    def tell(self, connection: Connection, snapshot: Snapshot, predictions: Iterable[Prediction]) -> Sequence[int]:
        """Write the first predicted start of each job that gets it in ``predictions``; return these jobs."""
        new = {
            prediction.job: prediction.start
            for prediction in predictions
            if prediction.job not in self._told
            and prediction.start is not None
            and prediction.start > snapshot.now
            and prediction.verdict in CHANCE
        }
        if new:
            queues = {job.id: job.queue for job in snapshot.waiting if job.id in new}
            note(connection, [self._first(job, queues[job], snapshot.now, start) for job, start in new.items()])
        return [*new]

    def committed(self, jobs: Sequence[int], waiting: Mapping[int, object]) -> None:
        """Note that ``jobs``, among all that are ``waiting``, have their prediction."""
        self._told.update(jobs)
        if len(self._told) > len(waiting) + _MOST_FORGOTTEN:
            self._told.intersection_update(waiting)

    def _first(self, job: int, queue: str, now: float, start: float) -> FirstPrediction:
        interval = self._forecast.interval(queue, start - now)
        if interval is None:
            return FirstPrediction(job, now, start, None, self._forecast.starts)
        return FirstPrediction(job, now, start, (now + interval.earliest, now + interval.latest), interval.starts)
