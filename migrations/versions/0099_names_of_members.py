"""Names of members of projects are those that logins may have.

Revision ID: 0099
"""

from __future__ import annotations

from alembic import op

from oarpy.model.errors import OarpyError

revision = "0099"
down_revision = "0098"

_LOGIN = "(user_name ~ '^[A-Za-z0-9_.][A-Za-z0-9_.-]*[$]?(@[A-Za-z0-9.-]+)?$') AND (length(user_name) <= 255)"
_MEANING = "the user, called as a login may be, with or without a domain"
_WRONG = f"""
SELECT format('member %L of project %L', user_name, project) FROM project_members WHERE NOT ({_LOGIN})
ORDER BY user_name, project LIMIT 3
"""  # noqa: S608


def _check(condition: str, meaning: str) -> None:
    name = "project_members_user_name_check"
    op.execute(f"ALTER TABLE project_members DROP CONSTRAINT {name}, ADD CONSTRAINT {name} CHECK ({condition})")
    op.execute(f"COMMENT ON COLUMN project_members.user_name IS '{meaning}'")


def upgrade() -> None:
    """Refuse other names. Raises :class:`OarpyError` where there are some: nobody logs in by such a name."""
    wrong = [name for (name,) in op.get_bind().exec_driver_sql(_WRONG, execution_options={"no_parameters": True})]
    if wrong:
        raise OarpyError(f"names that no login has: {', '.join(wrong)}", hint="rename or remove them by SQL")
    _check(_LOGIN, _MEANING)


def downgrade() -> None:
    """Forget members with names of more than 100 bytes, and refuse longer names alone."""
    op.execute("DELETE FROM project_members WHERE octet_length(user_name) > 100")
    _check("octet_length(user_name) BETWEEN 1 AND 100", "the user")
