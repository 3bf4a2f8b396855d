"""The first predictions of the starts of jobs, and their outcomes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from oarpy.store.database import Connection
from oarpy.store.passes.decisions import database_instant
from oarpy.store.refusals import set_wise


@dataclass(frozen=True, slots=True)
class FirstPrediction:
    """Instants are epoch seconds; ``interval`` is None when there were too few past starts, which are ``starts``."""

    job: int
    made: float
    planned: float
    interval: tuple[float, float] | None
    starts: int


@dataclass(frozen=True, slots=True)
class StartThatCame:
    """A start that had been predicted: seconds from the first prediction, planned and real.

    ``held`` says whether it fell into the predicted interval, None when there was none.
    """

    queue: str
    planned: float
    waited: float
    held: bool | None


# The first prediction stays, whichever pass plans the job again.
_NOTE = """
    INSERT INTO first_predictions (job_id, made_at, planned_start, earliest_start, latest_start, learnt_from)
    SELECT p.job_id, to_timestamp(p.made), to_timestamp(p.planned), to_timestamp(p.earliest), to_timestamp(p.latest),
           p.starts
    FROM unnest(%(jobs)s::bigint[], %(made)s::float8[], %(planned)s::float8[], %(earliest)s::float8[],
                %(latest)s::float8[], %(starts)s::int[]) AS p(job_id, made, planned, earliest, latest, starts)
    JOIN jobs j ON j.job_id = p.job_id AND j.state = 'Waiting'
    ON CONFLICT (job_id) DO NOTHING
"""

# The latest jobs of the live tables that started, in the order of their starts, without jobs that waited again after a
# lost launch.
_CAME = """
    SELECT queue_name, planned, waited, held FROM (
        SELECT j.queue_name, j.started_at, j.job_id,
               extract(epoch FROM f.planned_start - f.made_at)::float8 AS planned,
               extract(epoch FROM greatest(j.started_at - f.made_at, interval '0'))::float8 AS waited,
               j.started_at BETWEEN f.earliest_start AND f.latest_start AS held
        FROM first_predictions f JOIN jobs j USING (job_id)
        WHERE j.started_at IS NOT NULL AND j.attempt <= 1
        ORDER BY f.job_id DESC LIMIT %s
    ) latest ORDER BY started_at, job_id
"""


@set_wise
def note(connection: Connection, predictions: Sequence[FirstPrediction]) -> None:
    """Store first predictions; a job that has one keeps it."""
    if predictions:
        intervals = [prediction.interval or (None, None) for prediction in predictions]
        connection.execute(
            _NOTE,
            {
                "jobs": [prediction.job for prediction in predictions],
                "made": [float(prediction.made) for prediction in predictions],
                "planned": [database_instant(prediction.planned) for prediction in predictions],
                "earliest": [database_instant(earliest) for earliest, _ in intervals],
                "latest": [database_instant(latest) for _, latest in intervals],
                "starts": [prediction.starts for prediction in predictions],
            },
        )


def came(connection: Connection, most: int) -> list[StartThatCame]:
    """Return up to ``most`` of the latest predicted starts that came, in their order."""
    return [StartThatCame(*row) for row in connection.execute(_CAME, [most])]
