"""One job as the question "why does it wait" sees it: its state and the answer of the last scheduling pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from oarpy.model.reasons import Reason, reason_of
from oarpy.store.database import Connection
from oarpy.store.passes.first_prediction import TOLD_COLUMNS, ToldStart
from oarpy.store.past.reading import first_found

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


def number(connection: Connection) -> int:
    """Return the number of the last pass."""
    row = connection.execute("SELECT pass FROM scheduling_passes").fetchone()
    return 0 if row is None else int(row[0])


def places(connection: Connection) -> list[PlaceRow]:
    """Return every job with a prediction."""
    return [PlaceRow(*row) for row in connection.execute(_PLACES)]


_STANDING = f"""
    SELECT j.job_id, j.state, j.user_name, j.queue_name, j.message,
           extract(epoch FROM j.started_at)::float8, extract(epoch FROM j.ended_at)::float8,
           extract(epoch FROM j.walltime + j.suspended_time + coalesce(now() - j.suspended_at, interval '0'))::float8,
           CASE WHEN j.reservation_state = 'Scheduled' THEN extract(epoch FROM j.reservation_start)::float8 END,
           EXISTS (SELECT FROM kill_requests k WHERE k.job_id = j.job_id AND k.state <> 'done'),
           coalesce(g.verdict, ''), coalesce(g.reason, ''), g.reason_data::text,
           extract(epoch FROM g.start_time)::float8, extract(epoch FROM p.at)::float8, j.exit_status, {TOLD_COLUMNS}
    FROM scheduling_passes p, jobs j LEFT JOIN gantt_predictions g ON g.job_id = j.job_id
        LEFT JOIN first_predictions f ON f.job_id = j.job_id
    WHERE j.job_id = %s
"""  # noqa: S608 - columns named in the source


_ASKED = """
    SELECT s.request, s.admitted_filters FROM jobs j JOIN submissions s USING (submission_id) WHERE j.job_id = %s
"""


def asked(connection: Connection, job_id: int) -> tuple[Mapping[str, Any], Sequence[str]]:
    """Return the record of the submission as the user made it, and its filters as the rules left them.

    Both are empty for a job that was written by hand.
    """
    row = connection.execute(_ASKED, [job_id]).fetchone()
    return ({}, ()) if row is None else (row[0], row[1])


@dataclass(frozen=True, slots=True)
class LastAnswer:
    """The last answer about a job. Instants are epoch seconds, ``walltime`` seconds, longer by the time of suspensions.

    ``reserved`` is the date of an accepted reservation. ``verdict``, ``reason`` and ``predicted`` are from the last
    pass, at ``passed`` (empty when it stored none). ``exit_status`` is as waitpid(2) has it, None before the end.
    ``told`` is the first prediction of the job's start.
    """

    job: int
    state: str
    user: str
    queue: str
    message: str
    started: float | None
    ended: float | None
    walltime: float | None
    reserved: float | None
    dying: bool
    verdict: str
    reason: str
    reason_data: str | None
    predicted: float | None
    passed: float
    exit_status: int | None
    told: ToldStart | None = None

    @property
    def why(self) -> Reason:
        """Why the job waits, as the last pass has it."""
        return reason_of(self.reason, self.reason_data)


def standing(connection: Connection, job_id: int) -> LastAnswer | None:
    """Return how job ``job_id`` stands, None when there is none."""
    row = first_found(connection, lambda: connection.execute(_STANDING, [job_id]).fetchone())
    return None if row is None else replace(LastAnswer(*row[:-5]), told=ToldStart.of(row[-5:]))
