"""How jobs ended that others may depend on."""

from __future__ import annotations

from collections.abc import Iterable

from oarpy.store.database import Connection

# The same reading of an end as in the dependencies of a scheduling pass.
_OUTCOMES = """
    SELECT job_id, CASE WHEN state = 'Terminated' AND coalesce(exit_status, 0) = 0 THEN 'ok' ELSE 'notok' END
    FROM jobs
    WHERE job_id = ANY(%s)
      AND (state IN ('Terminated', 'Error', 'toError')
           OR state IN ('Waiting', 'Hold')
              AND EXISTS (SELECT FROM kill_requests k WHERE k.job_id = jobs.job_id AND k.state <> 'done'))
"""


def outcomes(connection: Connection, job_ids: Iterable[int]) -> dict[int, str]:
    """Return ``ok`` or ``notok`` for each of these jobs that is over, or about to be without having run."""
    wanted = list(job_ids)
    return dict(connection.execute(_OUTCOMES, [wanted]).fetchall()) if wanted else {}
