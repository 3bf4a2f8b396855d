"""The outcomes of the prologue and epilogue on the server, for each attempt at a live job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from oarpy.store.database import Connection


@dataclass(frozen=True, slots=True)
class ScriptOutcome:
    """How a script (``prologue`` or ``epilogue``) ended: ``ok``, ``failed``, ``timeout`` or ``lost``; with an event."""

    job: int
    attempt: int
    kind: str
    outcome: str
    detail: str
    event: str = ""


# Written before the script is started: a process that finds a row without an outcome, and did not start it, knows that
# it was cut off.
_BEGIN = """
    INSERT INTO server_scripts (job_id, attempt, kind)
    SELECT s.job_id, s.attempt, %s FROM unnest(%s::bigint[], %s::int[]) AS s(job_id, attempt)
    ON CONFLICT DO NOTHING
    RETURNING job_id, attempt
"""
_FIND = """
    SELECT s.job_id, s.attempt, s.kind, coalesce(s.outcome, ''), s.detail
    FROM server_scripts s JOIN unnest(%s::bigint[], %s::int[]) AS w(job_id, attempt) USING (job_id, attempt)
    WHERE s.kind = %s
"""
_END = """
    WITH ended AS (
        SELECT * FROM unnest(%s::bigint[], %s::int[], %s::text[], %s::text[], %s::text[], %s::text[])
            AS e(job_id, attempt, kind, outcome, detail, event)
    ), noted AS (
        UPDATE server_scripts s SET outcome = e.outcome, detail = e.detail FROM ended e
        WHERE (s.job_id, s.attempt, s.kind) = (e.job_id, e.attempt, e.kind) AND s.outcome IS NULL
        RETURNING s.job_id, s.kind
    )
    INSERT INTO event_logs (type, job_id, description)
    SELECT e.event, e.job_id, e.detail FROM ended e JOIN noted USING (job_id, kind) WHERE e.event <> ''
"""
_FORGET = "DELETE FROM server_scripts WHERE job_id = ANY(%s)"


def begin(connection: Connection, kind: str, attempts: Sequence[tuple[int, int]]) -> set[tuple[int, int]]:
    """Note that the scripts of these (job, attempt) are about to run; return the pairs whose scripts had not begun."""
    if not attempts:
        return set()
    columns = [[job for job, _ in attempts], [attempt for _, attempt in attempts]]
    return {(job, attempt) for job, attempt in connection.execute(_BEGIN, [kind, *columns])}


def find(connection: Connection, kind: str, attempts: Sequence[tuple[int, int]]) -> list[ScriptOutcome]:
    """Return the outcomes of scripts that were begun; a script whose end was not seen has an empty outcome."""
    if not attempts:
        return []
    columns = [[job for job, _ in attempts], [attempt for _, attempt in attempts]]
    return [ScriptOutcome(*row) for row in connection.execute(_FIND, [*columns, kind])]


def end(connection: Connection, outcomes: Sequence[ScriptOutcome]) -> None:
    """Record the ends of scripts, each once, with its event if there is an event."""
    if outcomes:
        names = ("job", "attempt", "kind", "outcome", "detail", "event")
        connection.execute(_END, [[getattr(outcome, name) for outcome in outcomes] for name in names])


def forget(connection: Connection, jobs: Sequence[int]) -> None:
    """Drop the runs of jobs that are over."""
    if jobs:
        connection.execute(_FORGET, [list(jobs)])
