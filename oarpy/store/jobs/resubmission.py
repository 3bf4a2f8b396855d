"""Automatic resubmission of idempotent jobs: a copy that waits again, a bounded number of times.

A task of a bag that fails is copied for any reason. Its copy is a task of the bag, for which the bag has its promise.
"""

from __future__ import annotations

from collections.abc import Sequence

from oarpy.store.database import Connection
from oarpy.store.jobs import rates
from oarpy.store.jobs.copied_columns import COPIED, COPIES_OF_TASKS
from oarpy.store.jobs.kill_requests import GAVE_WAY
from oarpy.store.refusals import set_wise

_REPEATED_TASKS = 3
"""How often a task of a bag that fails is run again."""

# The chain of copies is counted, so no chain goes on for ever, not even where a row says that a job repeats itself.
# Ends that a job asked for or agreed to (exit code 99, best effort) are counted apart from losses, which may be its own
# fault. A copy made by hand begins a new chain.
_RESUBMIT = f"""
    WITH RECURSIVE chain AS (
        SELECT j.job_id AS last, j.job_id, j.state, j.resubmit_of FROM jobs j WHERE j.job_id = ANY(%(jobs)s)
        UNION
        SELECT c.last, j.job_id, j.state, j.resubmit_of FROM chain c JOIN jobs j ON j.job_id = c.resubmit_of
        WHERE EXISTS (SELECT FROM event_logs e
                      WHERE e.job_id = j.job_id AND e.type = 'RESUBMIT_JOB_AUTOMATICALLY')
    ), judged AS (
        SELECT last, job_id, state = 'Terminated' OR EXISTS (
                   SELECT FROM event_logs e WHERE e.job_id = chain.job_id AND e.type = '{GAVE_WAY}') AS agreed
        FROM chain
    ), counted AS (
        SELECT last, bool_or(agreed) FILTER (WHERE job_id = last) AS agreed,
               count(*) FILTER (WHERE agreed) AS repetitions, count(*) FILTER (WHERE NOT agreed) AS losses
        FROM judged GROUP BY last
    ), eligible AS (
        SELECT j.job_id FROM jobs j JOIN counted c ON c.last = j.job_id
        WHERE ('idempotent' = ANY(j.types)
               OR c.agreed AND EXISTS (SELECT FROM giving_way(j) g WHERE g.manner = 'requeue')
                  AND EXISTS (SELECT FROM event_logs e WHERE e.job_id = j.job_id AND e.type = '{GAVE_WAY}'))
          AND j.kind = 'PASSIVE'
          AND CASE WHEN 'bag' = ANY(j.types) THEN c.repetitions + c.losses <= {_REPEATED_TASKS}
                WHEN j.reservation_start IS NOT NULL THEN false
                WHEN c.agreed THEN c.repetitions <= %(repetitions)s ELSE c.losses <= %(losses)s END
          AND CASE
                WHEN 'bag' = ANY(j.types) THEN j.state = 'Error' OR j.exit_status <> 0
                WHEN j.state = 'Terminated'
                THEN j.exit_status >> 8 = 99 AND j.ended_at - j.started_at > interval '1 minute'
                ELSE EXISTS (SELECT FROM event_logs e WHERE e.job_id = j.job_id
                             AND e.type IN ('NODE_LOST', 'JOB_LOST', '{GAVE_WAY}', 'CANNOT_WRITE_NODE_FILE',
                                            'PROLOGUE_ERROR', 'SERVER_PROLOGUE_LOST')) END
          AND NOT EXISTS (SELECT FROM jobs r WHERE r.resubmit_of = j.job_id)
          -- whoever deleted it does not want it again
          AND NOT EXISTS (SELECT FROM kill_requests k WHERE k.job_id = j.job_id
                          AND k.requested_by NOT IN ('metascheduler', 'monitor'))
    ), copied AS (
        INSERT INTO jobs (submission_id, array_id, array_index, resubmit_of, {COPIED}, message)
        SELECT submission_id, array_id, array_index, job_id, {COPIES_OF_TASKS}, 'resubmission of ' || job_id
        FROM jobs WHERE job_id IN (SELECT job_id FROM eligible)
        RETURNING job_id, resubmit_of
    ), moved AS (
        UPDATE job_dependencies d SET required_job_id = c.job_id
        FROM copied c, jobs w
        WHERE d.required_job_id = c.resubmit_of AND w.job_id = d.job_id AND w.state IN ('Waiting', 'Hold')
    ), logged AS (
        INSERT INTO event_logs (type, job_id, description)
        SELECT 'RESUBMIT_JOB_AUTOMATICALLY', resubmit_of, 'resubmitted as job ' || job_id FROM copied
    )
    SELECT resubmit_of, job_id FROM copied
"""  # noqa: S608


@set_wise
def resubmit(connection: Connection, jobs: Sequence[int], *, losses: int, repetitions: int) -> list[tuple[int, int]]:
    """Copy the ended jobs among ``jobs`` that are idempotent and deserve it: (old id, new id).

    A job that was lost with its node is copied at most ``losses`` times in a chain of copies. A job that was cancelled
    as best-effort, or ended with exit code 99 after a minute at least, is copied at most ``repetitions`` times. A task
    of a bag is copied three times at most.
    """
    if not jobs:
        return []
    values = {"jobs": list(jobs), "losses": losses, "repetitions": repetitions}
    copies = [(old, new) for old, new in connection.execute(_RESUBMIT, values)]
    rates.map_again(connection, copies)
    return copies
