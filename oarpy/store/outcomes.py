"""How jobs ended that others may depend on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from oarpy.store.database import Connection

# The same reading of an end as in the dependencies of a scheduling pass.
_OUTCOMES = """
    SELECT job_id, CASE WHEN state = 'Terminated' AND coalesce(exit_status, 0) = 0 THEN 'ok' ELSE 'notok' END,
           extract(epoch FROM coalesce(started_at, ended_at, now()))::bigint,
           extract(epoch FROM coalesce(ended_at, now()))::bigint
    FROM jobs
    WHERE job_id = ANY(%s)
      AND (state IN ('Terminated', 'Error', 'toError')
           OR state IN ('Waiting', 'Hold')
              AND EXISTS (SELECT FROM kill_requests k WHERE k.job_id = jobs.job_id AND k.state <> 'done'))
"""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a job ended (``ok`` or ``notok``), and its start and end in epoch seconds."""

    outcome: Literal["ok", "notok"]
    span: tuple[int, int]


def outcomes(connection: Connection, job_ids: Iterable[int]) -> dict[int, Ended]:
    """Tell how each of these jobs ended that is over, or about to be without having run."""
    wanted = list(job_ids)
    rows = connection.execute(_OUTCOMES, [wanted]) if wanted else ()
    return {job: Ended(outcome, (began, over)) for job, outcome, began, over in rows}
