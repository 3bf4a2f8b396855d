"""The rows from which run times are predicted, and the predictions of jobs that have started."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from oarpy.store.database import Connection
from oarpy.store.rows import read

# The last 30 of a user, and the last 30 of a user and a name: the indexes have both in this order.
_RUNS = """
    WITH kinds AS (SELECT DISTINCT user_name, job_name FROM jobs WHERE job_id = ANY(%(jobs)s)), found AS (
        SELECT r.* FROM (SELECT DISTINCT user_name FROM kinds) k CROSS JOIN LATERAL (
            SELECT * FROM jobs j
            WHERE j.user_name = k.user_name AND j.started_at IS NOT NULL AND j.ended_at IS NOT NULL
            ORDER BY j.ended_at DESC LIMIT 30) r
        UNION
        SELECT r.* FROM kinds k CROSS JOIN LATERAL (
            SELECT * FROM jobs j
            WHERE j.user_name = k.user_name AND j.job_name = k.job_name
              AND j.started_at IS NOT NULL AND j.ended_at IS NOT NULL
            ORDER BY j.ended_at DESC LIMIT 30) r
    )
    SELECT user_name AS user, job_name AS name, extract(epoch FROM walltime)::float8 AS walltime,
           greatest(extract(epoch FROM ended_at - started_at - suspended_time), 0)::float8 AS run,
           extract(epoch FROM ended_at)::float8 AS end
    FROM found WHERE walltime > interval '0'
    ORDER BY ended_at DESC, job_id DESC
"""
_KNOWN = "SELECT job_id, seconds FROM run_predictions WHERE job_id = ANY(%s)"
_WRITE = """
    INSERT INTO run_predictions (job_id, predictor, seconds)
    SELECT job, %(predictor)s, seconds FROM unnest(%(jobs)s::bigint[], %(seconds)s::float8[]) AS p(job, seconds)
    ON CONFLICT (job_id) DO UPDATE
        SET predictor = excluded.predictor, seconds = excluded.seconds, made_at = excluded.made_at
"""


@dataclass(frozen=True, slots=True)
class EndedRun:
    """A job that ended: seconds, and when it ended (epoch seconds)."""

    user: str
    name: str
    walltime: float
    run: float
    end: float


def runs(connection: Connection, jobs: Collection[int]) -> list[EndedRun]:
    """Return the last runs of the users of ``jobs``, and of the names of ``jobs``, the latest first."""
    return read(connection, _RUNS, EndedRun, {"jobs": list(jobs)})


def known(connection: Connection, jobs: Collection[int]) -> dict[int, float]:
    """Return how long jobs that have started were predicted to run, by job."""
    return dict(connection.execute(_KNOWN, [list(jobs)]).fetchall())


def write(connection: Connection, predictor: str, predicted: Mapping[int, float]) -> None:
    """Note how long jobs that start now are predicted to run."""
    if predicted:
        values = {"predictor": predictor, "jobs": list(predicted), "seconds": list(predicted.values())}
        connection.execute(_WRITE, values)
