"""The states of one job over time, as a page draws them."""

from __future__ import annotations

from dataclasses import dataclass

from oarpy.store.database import Connection
from oarpy.store.past.reading import is_in_past, with_past

_STATES = """
    SELECT l.state, extract(epoch FROM lower(l.during))::float8,
           extract(epoch FROM CASE WHEN s.final THEN lower(l.during) ELSE upper(l.during) END)::float8
    FROM job_state_logs l JOIN public.job_states s USING (state) WHERE l.job_id = %s ORDER BY lower(l.during), l.during
"""


@dataclass(frozen=True, slots=True)
class PassedState:
    """A state from ``begin`` to ``end`` (epoch seconds); None: the job is in it. A final state lasts no time."""

    state: str
    begin: float
    end: float | None


def states(connection: Connection, job_id: int) -> tuple[PassedState, ...]:
    """Return the states of the job in their order."""
    if is_in_past(connection, [job_id], []):
        with with_past(connection):
            rows = connection.execute(_STATES, [job_id]).fetchall()
    else:
        rows = connection.execute(_STATES, [job_id]).fetchall()
    return tuple(PassedState(*row) for row in rows)
