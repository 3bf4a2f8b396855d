"""Projects and the use of their hours, as passes and submissions need it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from oarpy.store import rows
from oarpy.store.database import Connection


@dataclass(frozen=True, slots=True)
class ProjectUseRow:
    """A project, and the hours that ended jobs of it and of those below it used in its present period.

    ``until`` is in epoch seconds. Hours are billing units.
    """

    project: str
    parent: str | None
    share: float
    weight: float
    hours: float | None
    used: float
    period: str
    until: float | None
    gives_way_to: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ProjectLeftRow:
    """Hours that a project has ``left`` in its present period (None: no limit), when waiting jobs are counted too."""

    project: str
    hours: float | None
    left: float | None
    when_spent: str


_USE = """
    SELECT project, parent, share, weight, hours, used_hours AS used, period,
           extract(epoch FROM until)::float8 AS until,
           (SELECT gives_way_to FROM projects p WHERE p.project = v.project) AS gives_way_to
    FROM oar_report.projects v ORDER BY project
"""
_SHARES = "SELECT project, parent, share FROM projects ORDER BY project"
# Submissions to one project, or to projects below one, take turns: otherwise none sees what the others take.
_LOCK = "SELECT FROM projects WHERE project = ANY(%s) AND hours IS NOT NULL ORDER BY project FOR NO KEY UPDATE"
_LEFT = """
    SELECT project, hours, left_hours AS "left", when_spent FROM oar_report.projects
    WHERE project = ANY(%s) AND hours IS NOT NULL
"""


# Other than the view, it counts from the begin of each project's period to one instant in the past.
_BETWEEN = """
    WITH RECURSIVE below (project, part) AS (
        SELECT project, project FROM projects
        UNION ALL
        SELECT below.project, p.project FROM below JOIN projects p ON p.parent = below.part
    )
    SELECT b.project, sum(a.consumption * p.weight * w.value::float8 / 3600)
    FROM unnest(%s::text[], %s::float8[]) AS f (project, begin) JOIN below b USING (project)
        JOIN projects p ON p.project = b.part CROSS JOIN scheduling_passes s CROSS JOIN jsonb_each(s.billing_weights) w
        JOIN accounting a ON a.project = b.part AND a.window_start >= to_timestamp(f.begin)
            AND a.consumption_type = CASE w.key WHEN 'core' THEN 'USED' WHEN 'gpu' THEN 'GPU_USED'
                                     ELSE w.key || '_USED' END
    WHERE a.window_stop <= to_timestamp(%s) AND a.queue_name <> 'besteffort'
    GROUP BY b.project
"""
_NOTE = """
    UPDATE submissions s SET asked_units = asked.units
    FROM unnest(%s::bigint[], %s::float8[]) AS asked (job_id, units) JOIN jobs j USING (job_id)
    WHERE s.submission_id = j.submission_id
"""


def used_between(connection: Connection, begins: Mapping[str, float], end: float) -> dict[str, float]:
    """Return the hours that projects used from their ``begins`` to ``end`` (epoch seconds), whole windows alone."""
    sums = connection.execute(_BETWEEN, [list(begins), list(begins.values()), end])
    return {project: float(hours) for project, hours in sums}


def note_asked(connection: Connection, units: Mapping[int, float]) -> None:
    """Note the billing units, in hours, that each job of submissions asks for, by a job of each submission."""
    connection.execute(_NOTE, [list(units), list(units.values())])


def project_use(connection: Connection) -> list[ProjectUseRow]:
    """Return every project, by name."""
    return rows.read(connection, _USE, ProjectUseRow)


def project_shares(connection: Connection) -> dict[str, tuple[str, float]]:
    """Return the parent (empty: none) and the share of each project."""
    return {project: (parent or "", share) for project, parent, share in connection.execute(_SHARES)}


def lock(connection: Connection, projects: Sequence[str]) -> None:
    """Let no other submission for these projects in until the end of the transaction, if they have hours."""
    connection.execute(_LOCK, [list(projects)])


def left(connection: Connection, projects: Sequence[str]) -> dict[str, ProjectLeftRow]:
    """Return the hours that are left to projects with a limit, by name."""
    return {row.project: row for row in rows.read(connection, _LEFT, ProjectLeftRow, [list(projects)])}
