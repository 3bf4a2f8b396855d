"""Rows of applications that contradict each other, for ``oarpy db check``: the error and its repair."""

from __future__ import annotations

from collections.abc import Iterator

from oarpy.negotiation.store import applications, row_faults
from oarpy.store.database import Connection

# After the end of its job a pass has its part to do still.
_QUERIES = (
    """
    SELECT format('job %s chooses its own hosts, and is no application', job_id), format('oardel %s', job_id)
    FROM jobs j
    WHERE is_live(state) AND 'negotiated' = ANY(types)
      AND NOT EXISTS (SELECT FROM applications a WHERE a.job_id = j.job_id)
    ORDER BY job_id
    """,
    """
    SELECT format('job %s is an application, and does not choose its own hosts', job_id),
           format('UPDATE jobs SET types = types || ''{negotiated}'' WHERE job_id = %s', job_id)
    FROM applications a JOIN jobs j USING (job_id)
    WHERE is_live(j.state) AND NOT 'negotiated' = ANY(types) ORDER BY job_id
    """,
    """
    SELECT format('application %s is %s, its job is %s', job_id, a.state, j.state), format('oardel %s', job_id)
    FROM applications a JOIN jobs j USING (job_id)
    WHERE CASE WHEN a.state IN ('Submitted', 'RequestSent', 'Waiting')
                    THEN j.state IN ('toLaunch', 'Launching', 'Running', 'Suspended', 'Resuming')
               WHEN a.state = 'Started' THEN j.state IN ('Waiting', 'Hold')
               ELSE is_live(j.state) AND j.state NOT IN ('Finishing', 'toError') END
    ORDER BY job_id
    """,
    """
    SELECT format('application %s first asked in the future, at %s', job_id, first_asked_at),
           format('UPDATE applications SET first_asked_at = now() WHERE job_id = %s', job_id)
    FROM applications WHERE state <> 'Finished' AND first_asked_at > now() + interval '1 minute' ORDER BY job_id
    """,
    """
    SELECT format('hosts are kept back for job %s, which is %s', job_id, j.state),
           format('DELETE FROM ghosts WHERE job_id = %s', job_id)
    FROM ghosts g JOIN jobs j USING (job_id) WHERE is_live(j.state) ORDER BY job_id
    """,
    """
    SELECT format('hosts of application %s are kept back, which is %s', job_id, a.state),
           format('DELETE FROM ghosts WHERE job_id = %s', job_id)
    FROM ghosts g JOIN jobs j USING (job_id) JOIN applications a USING (job_id)
    WHERE NOT is_live(j.state) AND a.state <> 'Ghost' ORDER BY job_id
    """,
    """
    SELECT format('hosts are kept back for job %s, among them resource %s, which there is not', job_id, min(n)),
           format('DELETE FROM ghosts WHERE job_id = %s', job_id)
    FROM ghosts g, unnest(g.resources) AS part, generate_series(lower(part), upper(part) - 1) AS n
    WHERE NOT EXISTS (SELECT FROM resources r WHERE r.resource_id = n) GROUP BY job_id ORDER BY job_id
    """,
)


def contradictions(connection: Connection) -> Iterator[str]:
    """Yield the contradictions, one line each with its repair."""
    for query in _QUERIES:
        for wrong, mended in connection.execute(query).fetchall():
            yield f"{wrong}: {mended}"
    for row in applications.live(connection):
        if column := row_faults.fault(row):
            yield f"application {row.job} has a value of {column} that cannot be read: oardel {row.job}"
