"""What jobs hold fits their state."""

from __future__ import annotations

from sqlalchemy import Connection

_MENDED = (
    "UPDATE jobs SET final_state = 'Error'"
    " WHERE state = 'Finishing' AND final_state = 'Waiting' AND started_at IS NOT NULL",
    "UPDATE jobs SET left_nothing = false"
    " WHERE left_nothing AND state IN ('Launching', 'Running', 'Suspended', 'Resuming', 'Finishing')",
    "DELETE FROM assigned_resources a USING jobs j"
    " WHERE j.job_id = a.job_id AND j.state IN ('Hold', 'Waiting', 'toAckReservation', 'toLaunch')"
    " AND NOT upper_inf(a.during)",
    "UPDATE assigned_resources a SET suspended = false FROM jobs j"
    " WHERE j.job_id = a.job_id AND a.suspended AND j.state NOT IN ('Suspended', 'Resuming', 'Finishing')",
)


def rows(connection: Connection) -> None:
    """Mend what does not."""
    for statement in _MENDED:
        connection.exec_driver_sql(statement)
