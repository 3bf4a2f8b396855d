"""Changing the requests of waiting jobs (``oaralter``): reading the present request, and storing another one.

Jobs share their submission. If all its jobs change together, the submission itself is changed. If some jobs stay, the
changed jobs get a submission of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from psycopg.types.json import Json, Jsonb

from oarpy.model.reasons import Reason
from oarpy.model.submission import FIELDS
from oarpy.store.database import Connection
from oarpy.store.events import log_reasons
from oarpy.store.jobs import submissions
from oarpy.store.rows import read

ALTERED = "ALTER_JOB"
"""Type of the events that describe changes; time travel reads them."""

_FIXED = frozenset({"user", "interactive", "reservation"})
_COLUMNS = {field.column: name for name, field in FIELDS.items() if field.column and name not in _FIXED}
"""The columns of jobs that may change, with their fields of the submission."""

# In order of id, as every other writer locks them. No other session leaves a locked submission meanwhile.
_LOCK = "SELECT FROM submissions WHERE submission_id = ANY(%s) ORDER BY submission_id FOR NO KEY UPDATE"
_ROWS = f"""
    SELECT j.job_id AS job, j.submission_id AS submission, s.request AS record, j.message,
           j.reservation_start IS NOT NULL AS reservation, p.broker,
           jsonb_build_object({", ".join(f"'{name}', j.{column}" for column, name in _COLUMNS.items())}) AS fields
    FROM jobs j JOIN submissions s USING (submission_id) LEFT JOIN door_parts p USING (job_id)
    WHERE j.job_id = ANY(%s) ORDER BY j.job_id
"""  # noqa: S608 - columns of the source
_SHARED = "SELECT EXISTS (SELECT FROM jobs WHERE submission_id = %s AND NOT job_id = ANY(%s))"
_SPLIT = """
    INSERT INTO submissions (initial_request, environment, submitted_from, script)
    SELECT initial_request, environment, submitted_from, script FROM submissions WHERE submission_id = %s
    RETURNING submission_id
"""
# a pass that has decided about the former alternatives finds them gone
_FORGET = "DELETE FROM moldable_descriptions WHERE submission_id = %s"
# Whoever stores a request says next what it asks for, if a project pays for it.
_RECORD = """
    UPDATE submissions SET request = %s, admitted_filters = %s, kind = %s, asked_units = NULL WHERE submission_id = %s
"""
_ALTER = f"""
    UPDATE jobs j SET submission_id = %(submission)s, message = %(message)s,
        {", ".join(f"{column} = asked.{column}" for column in _COLUMNS if column != "throttle")}
    FROM json_populate_record(NULL::jobs, %(row)s::json) AS asked
    WHERE j.job_id = ANY(%(jobs)s) AND j.state IN ('Waiting', 'Hold')
"""  # noqa: S608
# A throttle concerns all members of an array, including running ones.
_THROTTLE = """
    WITH members AS MATERIALIZED (
        SELECT job_id FROM jobs
        WHERE is_live(state) AND array_id IN (SELECT array_id FROM jobs WHERE job_id = ANY(%(jobs)s))
        ORDER BY job_id FOR NO KEY UPDATE)
    UPDATE jobs j SET throttle = %(throttle)s FROM members m
    WHERE j.job_id = m.job_id AND j.throttle IS DISTINCT FROM %(throttle)s
"""
# They were about other requests: the next pass foresees starts of these.
_UNPREDICTED = """
    WITH told AS (DELETE FROM first_predictions WHERE job_id = ANY(%(jobs)s))
    DELETE FROM gantt_predictions WHERE job_id = ANY(%(jobs)s)
"""


@dataclass(frozen=True, slots=True)
class AskedRow:
    """The request of a job: the ``record`` of its submission before the rules, and ``fields`` of it by name.

    ``broker`` is the broker whose part the job is; None for other jobs.
    """

    job: int
    submission: int
    record: Mapping[str, object]
    message: str
    reservation: bool
    broker: str | None
    fields: Mapping[str, object]


def asked(connection: Connection, jobs: Sequence[int]) -> list[AskedRow]:
    """Return the requests of these jobs, in order of id."""
    return read(connection, _ROWS, AskedRow, [list(jobs)])


def lock(connection: Connection, rows: Sequence[AskedRow]) -> None:
    """Keep others from leaving the submissions of these rows until the end of the transaction."""
    connection.execute(_LOCK, [list({row.submission for row in rows})])


def store(connection: Connection, jobs: Sequence[int], submission: int, new: submissions.NewSubmission) -> None:
    """Give these waiting jobs of one ``submission`` the request of ``new``."""
    row = connection.execute(_SHARED, [submission, list(jobs)]).fetchone()
    assert row is not None
    if row[0]:
        row = connection.execute(_SPLIT, [submission]).fetchone()
        assert row is not None
        (submission,) = row
    else:
        connection.execute(_FORGET, [submission])
    record = {} if new.asked is None else submissions.recorded(new.asked)
    filters = submissions.filters_of(new.submission)
    connection.execute(_RECORD, [Jsonb(record), filters, new.kind, submission])
    submissions.insert_requests(connection, [(submission, new.submission.alternatives)])
    values = {"submission": submission, "message": new.message, "jobs": list(jobs)}
    connection.execute(_ALTER, {**values, "row": Json(new.submission.columns(), submissions.row_text)})
    connection.execute(_UNPREDICTED, {"jobs": list(jobs)})


def throttle(connection: Connection, jobs: Sequence[int], at_once: int) -> None:
    """Let ``at_once`` members of the arrays of these jobs run at once."""
    connection.execute(_THROTTLE, {"jobs": list(jobs), "throttle": at_once})


def log(connection: Connection, reasons: Mapping[int, Reason]) -> None:
    """Log the changes of each job."""
    log_reasons(connection, ALTERED, reasons)
