"""Projects that pay for jobs: rows of the tree, and of their members."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from oarpy.store import rows
from oarpy.store.database import Connection
from oarpy.store.platform.queues import Manner


@dataclass(frozen=True, slots=True)
class ProjectRow:
    """A project; ``hours`` are billing units, in hours, of each ``period``, None for no limit.

    Its jobs and those below it give way to those of ``gives_way_to`` in a ``manner``, as queues say it.
    """

    project: str
    parent: str | None
    share: float
    hours: float | None
    period: str
    weight: float
    until: datetime | None
    when_spent: str
    gives_way_to: tuple[str, ...] = ()
    manner: Manner = "end"
    grace: int = 0
    grace_signal: int = 15


@dataclass(frozen=True, slots=True)
class UseRow:
    """What became of the hours of a project and of those below it in the present period; ``left_hours`` is the rest.

    ``spent_at`` (epoch seconds) is when they are used up, if that is foreseen.
    """

    project: str
    used_hours: float
    held_hours: float
    asked_hours: float
    left_hours: float | None
    spent_at: float | None


@dataclass(frozen=True, slots=True)
class MemberRow:
    """A user whose jobs a project pays for; ``preferred`` for jobs that name no project."""

    project: str
    user_name: str
    role: str
    preferred: bool


_LOCK = "LOCK TABLE projects IN SHARE ROW EXCLUSIVE MODE"
_ALL = """
    SELECT project, parent, share, hours::float8 AS hours, period, weight, until, when_spent,
           gives_way_to, manner, grace, grace_signal
    FROM projects ORDER BY project
"""
_USES = """
    SELECT project, used_hours, held_hours, asked_hours, left_hours, extract(epoch FROM spent_at)::float8 AS spent_at
    FROM oar_report.projects
"""
_MEMBERS = """
    SELECT project, user_name, role, preferred FROM project_members
    WHERE (%(project)s::text IS NULL OR project = %(project)s) AND (%(user)s::text IS NULL OR user_name = %(user)s)
    ORDER BY project, user_name
"""
_ADD = """
    INSERT INTO projects (project, parent, share, hours, period, weight, until, when_spent, gives_way_to, manner,
                          grace, grace_signal)
    VALUES (%(project)s, %(parent)s, %(share)s, %(hours)s, %(period)s, %(weight)s, %(until)s, %(when_spent)s,
            %(gives_way_to)s, %(manner)s, %(grace)s, %(grace_signal)s)
"""
_CHANGE = """
    UPDATE projects SET parent = %(parent)s, share = %(share)s, hours = %(hours)s, period = %(period)s,
           weight = %(weight)s, until = %(until)s, when_spent = %(when_spent)s,
           gives_way_to = %(gives_way_to)s, manner = %(manner)s, grace = %(grace)s, grace_signal = %(grace_signal)s
    WHERE project = %(project)s
"""
_REMOVE = "DELETE FROM projects WHERE project = %s"
_USED_BY = "SELECT min(job_id) FROM jobs WHERE project = %s AND is_live(state)"
_ADD_MEMBERS = """
    INSERT INTO project_members (project, user_name, role)
    SELECT %s, user_name, %s FROM unnest(%s::text[]) AS user_name ON CONFLICT DO NOTHING RETURNING user_name
"""
_REMOVE_MEMBERS = """
    DELETE FROM project_members WHERE project = %s AND user_name = ANY(%s) RETURNING user_name
"""
_SET_ROLE = "UPDATE project_members SET role = %s WHERE project = %s AND user_name = %s"
_UNPREFER = "UPDATE project_members SET preferred = false WHERE user_name = %s AND preferred AND project <> %s"
_PREFER = "UPDATE project_members SET preferred = true WHERE user_name = %s AND project = %s"

# The sums of the accounting have the use before the use of live jobs.
_USED = """
    SELECT DISTINCT project, user_name FROM jobs
    UNION SELECT DISTINCT project, user_name FROM accounting ORDER BY project, user_name
"""
_SEED_PROJECTS = """
    INSERT INTO projects (project) SELECT DISTINCT project FROM unnest(%s::text[]) AS project
    ORDER BY project ON CONFLICT DO NOTHING RETURNING project
"""
_SEED_MEMBERS = """
    INSERT INTO project_members (project, user_name) SELECT * FROM unnest(%s::text[], %s::text[])
    ON CONFLICT DO NOTHING RETURNING project
"""


def lock(connection: Connection) -> None:
    """Until the transaction ends, nobody else changes projects; others read them."""
    connection.execute(_LOCK)


def projects(connection: Connection) -> list[ProjectRow]:
    """Return every project, by name."""
    return rows.read(connection, _ALL, ProjectRow)


def uses(connection: Connection) -> dict[str, UseRow]:
    """Return the use of the hours of each project, by name."""
    return {row.project: row for row in rows.read(connection, _USES, UseRow)}


def members(connection: Connection, project: str | None = None, user: str | None = None) -> list[MemberRow]:
    """Return the members of a project or of all, or the projects of a user."""
    return rows.read(connection, _MEMBERS, MemberRow, {"project": project, "user": user})


def add(connection: Connection, row: ProjectRow) -> None:
    """Add a project."""
    connection.execute(_ADD, _values(row))


def change(connection: Connection, row: ProjectRow) -> None:
    """Write the new state of a project, by its name."""
    connection.execute(_CHANGE, _values(row))


def remove(connection: Connection, project: str) -> None:
    """Remove a project that has none below it, with its members."""
    connection.execute(_REMOVE, [project])


def live_job(connection: Connection, project: str) -> int | None:
    """Return the first job of a project that is not over, None if all are."""
    row = connection.execute(_USED_BY, [project]).fetchone()
    return None if row is None else row[0]


def add_members(connection: Connection, project: str, users: Sequence[str], role: str) -> list[str]:
    """Add users who are no members yet; return them."""
    return [name for (name,) in connection.execute(_ADD_MEMBERS, [project, role, list(users)])]


def remove_members(connection: Connection, project: str, users: Sequence[str]) -> list[str]:
    """Remove members; return the removed ones."""
    return [name for (name,) in connection.execute(_REMOVE_MEMBERS, [project, list(users)])]


def set_role(connection: Connection, project: str, user: str, role: str) -> bool:
    """Give a member a role; return whether there is such a member."""
    return connection.execute(_SET_ROLE, [role, project, user]).rowcount == 1


def prefer(connection: Connection, project: str, user: str) -> bool:
    """Let jobs of a member that name no project be for this one; return whether there is such a member."""
    connection.execute(_UNPREFER, [user, project])
    return connection.execute(_PREFER, [user, project]).rowcount == 1


def used(connection: Connection) -> list[tuple[str, str]]:
    """Return the projects that jobs named, each with each of its users."""
    return [(project, user) for project, user in connection.execute(_USED)]


def seed(connection: Connection, names: Sequence[str], members: Sequence[tuple[str, str]]) -> tuple[int, int]:
    """Add projects, and members as pairs of a project and a user; return how many of each are new."""
    added = connection.execute(_SEED_PROJECTS, [list(names)]).fetchall()
    of_projects, users = [project for project, _ in members], [user for _, user in members]
    return len(added), len(connection.execute(_SEED_MEMBERS, [of_projects, users]).fetchall())


def line(of: Iterable[ProjectRow], project: str) -> list[ProjectRow]:
    """Return a project and the projects above it, upwards; empty for an unknown project."""
    known = {row.project: row for row in of}
    upwards: list[ProjectRow] = []
    name: str | None = project
    while name is not None and name in known and len(upwards) < len(known):
        upwards.append(known[name])
        name = known[name].parent
    return upwards


def _values(row: ProjectRow) -> dict[str, object]:
    return {name: getattr(row, name) for name in ProjectRow.__slots__} | {"gives_way_to": list(row.gives_way_to)}
