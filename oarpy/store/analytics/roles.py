"""Roles of PostgreSQL that read the views for analysts, and nothing else. Roles belong to the whole server."""

from __future__ import annotations

from contextlib import suppress

import psycopg
from psycopg.sql import SQL, Identifier, Literal

from oarpy.model.errors import NotAllowed, UsageError
from oarpy.store.database import Connection

GROUP = "oarpy_analyst"
"""Has the rights; who is a member of it has them too."""
SCHEMAS = ("oar_report", "oar_compat")

_ROLE = """
    SELECT coalesce(pg_has_role(oid, to_regrole(%(group)s), 'MEMBER'), false) AND NOT rolsuper
    FROM pg_roles WHERE rolname = %(name)s
"""
_GROUP_EXISTS = "SELECT WHERE to_regrole(%s) IS NOT NULL"
_DATABASE = "SELECT current_database()"
# Views that come later, or are made again, are theirs too.
_RIGHTS = (
    "GRANT CONNECT ON DATABASE {database} TO {group}",
    "GRANT USAGE ON SCHEMA {schemas} TO {group}",
    "GRANT SELECT ON ALL TABLES IN SCHEMA {schemas} TO {group}",
    "ALTER DEFAULT PRIVILEGES IN SCHEMA {schemas} GRANT SELECT ON TABLES TO {group}",
)
_MEMBER = (
    "GRANT {group} TO {name}",
    "ALTER ROLE {name} IN DATABASE {database} SET search_path = {path}",
    "ALTER ROLE {name} IN DATABASE {database} SET default_transaction_read_only = on",
)


def make_analyst(connection: Connection, name: str, schema: str, password: str | None) -> bool:
    """Make ``name`` a role that reads the views, and finds those of ``schema`` without its name; return if it is new.

    It logs in with ``password``; None leaves that as it is. The caller owns the transaction. Raises
    :class:`UsageError` when ``name`` is a role for something else, :class:`NotAllowed` without the right to make roles.
    """
    try:
        _make_group(connection)
        known = connection.execute(_ROLE, {"name": name, "group": GROUP}).fetchone()
        if known == (False,):
            raise UsageError(f"'{name}' is a role for something else", hint="choose another name")
        if known is None:
            connection.execute(SQL("CREATE ROLE {} LOGIN").format(Identifier(name)))
        if password is not None:
            secret = connection.pgconn.encrypt_password(password.encode(), name.encode(), b"scram-sha-256").decode()
            statement = SQL("ALTER ROLE {} PASSWORD {}").format(Identifier(name), Literal(secret))
            connection.execute(statement)
        _run(connection, _MEMBER, name=Identifier(name), path=Identifier(schema))
    except psycopg.errors.InsufficientPrivilege as error:
        reason = str(error).splitlines()[0]
        raise NotAllowed(f"no role was made: {reason}", hint="an account with CREATEROLE may") from error
    return known is None


def _make_group(connection: Connection) -> None:
    if not connection.execute(_GROUP_EXISTS, [GROUP]).fetchall():
        # another database of the server may just be doing the same
        with suppress(psycopg.errors.UniqueViolation, psycopg.errors.DuplicateObject), connection.transaction():
            connection.execute(SQL("CREATE ROLE {} NOLOGIN").format(Identifier(GROUP)))
    _run(connection, _RIGHTS)


def _run(connection: Connection, statements: tuple[str, ...], **names: Identifier) -> None:
    row = connection.execute(_DATABASE).fetchone()
    assert row is not None
    given = {"database": Identifier(row[0]), "group": Identifier(GROUP), **names}
    schemas = SQL(", ").join(map(Identifier, SCHEMAS))
    for statement in statements:
        connection.execute(SQL(statement).format(schemas=schemas, **given))
