"""Names of projects are those that jobs may have, names of members those that commands take.

Revision ID: 0097
"""

from __future__ import annotations

from alembic import op

from oarpy.model.errors import OarpyError

revision = "0097"
down_revision = "0096"

_WRONG = """
SELECT format('project %L', project) FROM projects WHERE NOT (project ~ '^[ -~]+$' AND length(project) <= 200)
UNION ALL
SELECT format('member %L of project %L', left(user_name, 100), project) FROM project_members
WHERE octet_length(user_name) > 100
LIMIT 3
"""


def _checks(of_projects: str, of_members: str) -> None:
    for table, column, check in (("projects", "project", of_projects), ("project_members", "user_name", of_members)):
        name = f"{table}_{column}_check"
        op.execute(f"ALTER TABLE {table} DROP CONSTRAINT {name}, ADD CONSTRAINT {name} CHECK ({check})")


def upgrade() -> None:
    """Refuse other names. Raises :class:`OarpyError` where there are some: nobody's job is for such a project."""
    wrong = [name for (name,) in op.get_bind().exec_driver_sql(_WRONG, execution_options={"no_parameters": True})]
    if wrong:
        raise OarpyError(f"names that no command takes: {', '.join(wrong)}", hint="rename or remove them by SQL")
    _checks("(project ~ '^[ -~]+$') AND (length(project) <= 200)", "octet_length(user_name) BETWEEN 1 AND 100")


def downgrade() -> None:
    """Refuse no name but none."""
    _checks("project <> ''", "user_name <> ''")
