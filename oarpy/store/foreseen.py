"""Where the last scheduling pass placed the jobs that wait."""

from __future__ import annotations

from typing import NamedTuple

from oarpy.store.database import Connection

# The ranges as text: thousands of jobs with many ranges each are read faster all at once than as range objects.
_PLACES = """
    SELECT job_id, extract(epoch FROM start_time)::float8, extract(epoch FROM end_time)::float8, resources::text
    FROM gantt_predictions WHERE start_time IS NOT NULL
"""


class PlaceRow(NamedTuple):
    """A predicted start and end (epoch seconds); ``ranges`` of resource ids in canonical form, ``{[1,5),[7,8)}``."""

    job: int
    start: float
    end: float
    ranges: str


def places(connection: Connection) -> list[PlaceRow]:
    """Return every job with a prediction."""
    return [PlaceRow(*row) for row in connection.execute(_PLACES)]
