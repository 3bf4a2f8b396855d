"""What must be true of the tables after all jobs of a campaign have ended, whatever was killed meanwhile."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import psycopg

QUESTIONS = {
    "jobs that did not end well": """
        SELECT job_id, state, message FROM jobs WHERE state <> 'Terminated' OR exit_status <> 0""",
    "jobs that entered a state more than once": """
        SELECT job_id, state, count(*) FROM job_state_logs l GROUP BY 1, 2
        HAVING state IN ('Launching', 'Running', 'Finishing', 'Terminated', 'Error')
            AND count(*) > 1 + CASE WHEN state IN ('Launching', 'Finishing') THEN
                (SELECT count(*) FROM event_logs e WHERE e.job_id = l.job_id AND e.type = 'REQUEUED') ELSE 0 END""",
    "jobs that were launched more or less than once": "SELECT job_id, attempt FROM jobs WHERE attempt <> 1",
    "jobs that never ran": """
        SELECT job_id FROM jobs j WHERE NOT EXISTS
            (SELECT FROM job_state_logs l WHERE l.job_id = j.job_id AND l.state = 'Running')""",
    "resources held twice": """
        SELECT a.resource_id, a.job_id, b.job_id FROM assigned_resources a JOIN assigned_resources b
            ON a.resource_id = b.resource_id AND a.job_id < b.job_id AND a.during && b.during""",
    "resources still held": "SELECT job_id, resource_id FROM assigned_resources WHERE upper_inf(during)",
    "resources not Alive": "SELECT resource_id, state FROM resources WHERE state <> 'Alive'",
    "accounting that does not add up": """
        WITH counted AS (SELECT coalesce(sum(consumption), 0) AS used FROM accounting WHERE consumption_type = 'USED'),
        real AS (SELECT sum(extract(epoch FROM j.ended_at - j.started_at) * (SELECT count(*) FROM assigned_resources a
            WHERE a.job_id = j.job_id)) AS used, count(*) AS jobs FROM jobs j)
        SELECT counted.used, real.used FROM counted, real WHERE abs(counted.used - real.used) > real.jobs * 6""",
}


def wrong_books(
    connection: psycopg.Connection[tuple[Any, ...]], questions: Iterable[str] = tuple(QUESTIONS)
) -> list[str]:
    """Return what is wrong, with the first rows that show it (nothing, if all is well)."""
    wrong = []
    for question in questions:
        rows = connection.execute(QUESTIONS[question]).fetchall()
        if rows:
            wrong.append(f"{question}: {rows[:5]}")
    return wrong
