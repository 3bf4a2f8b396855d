"""Jobs that started for projects that did not pay for them then, one statement a kind: the contradiction, and its cure.

The history of projects and members tells what was so, so a later change makes no job wrong. Jobs of which nobody
counted the billing units were submitted while projects paid for nothing, or are best effort: they are left alone.
"""

from __future__ import annotations

_ACCEPT = """
    format('INSERT INTO event_logs (type, job_id, description)'
           ' VALUES (''PROJECT_ACCEPTED'', %s, ''the project pays for it'')', j.job_id)
"""
"""What happened stays, and what other jobs of its submission ask for: the admin notes that this job is all right."""
_NOT_ACCEPTED = """
    NOT EXISTS (SELECT FROM event_logs e WHERE e.job_id = j.job_id AND e.type = 'PROJECT_ACCEPTED')
"""


def _states(relation: str, key: str) -> str:
    """Return the SQL of what the rows of ``relation`` were, each with when they were it."""
    return f"""
        SELECT content, change <> 'removed' AS present, tstzrange(changed_at, lead(changed_at) OVER (
                   PARTITION BY {key} ORDER BY changed_at, change_id)) AS during
        FROM project_changes WHERE relation = '{relation}'
    """


QUERIES = (
    # What waits keeps its project when its user is a member no longer, and so does what repeats it. A submission reads
    # the members before it is stored.
    f"""
    WITH members AS ({_states("project_members", "content ->> 'project', content ->> 'user_name'")})
    SELECT format('job %s started for project %s, and %s was no member of it', job_id, project, user_name), {_ACCEPT}
    FROM jobs j JOIN submissions s USING (submission_id)
    WHERE j.started_at >= j.submitted_at AND s.asked_units IS NOT NULL AND NOT EXISTS (
        SELECT FROM members m
        WHERE m.present AND m.content ->> 'project' = j.project AND m.content ->> 'user_name' = j.user_name
          AND m.during && tstzrange(CASE WHEN j.resubmit_of IS NULL THEN j.submitted_at ELSE (
              SELECT min(f.submitted_at) FROM jobs f WHERE f.submission_id = j.submission_id) END - interval '1 minute',
              j.started_at, '[]'))
      AND {_NOT_ACCEPTED}
    ORDER BY job_id
    """,
    # A pass decides before the job starts, by what it has read. A reservation keeps the place that it was given.
    f"""
    WITH RECURSIVE projects AS ({_states("projects", "content ->> 'project'")}), over AS (
        SELECT content ->> 'project' AS project,
               during * tstzrange((content ->> 'until')::timestamptz, NULL) AS during
        FROM projects WHERE present AND content ->> 'until' IS NOT NULL
        UNION
        SELECT p.content ->> 'project', p.during * over.during
        FROM over JOIN projects p ON p.content ->> 'parent' = over.project
        WHERE p.present AND p.during && over.during
    ), closed AS (
        SELECT project, range_agg(during) AS during FROM over WHERE NOT isempty(during) GROUP BY project
    )
    SELECT format('job %s started at %s for project %s, which was over', job_id, started_at, project), {_ACCEPT}
    FROM jobs j JOIN submissions s USING (submission_id) JOIN closed USING (project) CROSS JOIN LATERAL (
        SELECT coalesce(max(lower(l.during)), j.started_at) AS at
        FROM job_state_logs l
        WHERE l.job_id = j.job_id AND l.state = 'toLaunch' AND lower(l.during) <= j.started_at
    ) decided
    WHERE s.asked_units IS NOT NULL AND j.reservation_start IS NULL
      AND closed.during @> tstzrange(decided.at - interval '1 minute', decided.at, '[]') AND {_NOT_ACCEPTED}
    ORDER BY job_id
    """,
)
