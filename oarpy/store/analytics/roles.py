"""Roles of PostgreSQL that read the views for analysts, and nothing else. Roles belong to the whole server."""

from __future__ import annotations

from contextlib import suppress
from typing import LiteralString, NamedTuple

import psycopg
from psycopg.sql import SQL, Identifier, Literal

from oarpy.model.errors import NotAllowed, UsageError
from oarpy.store.database import Connection

GROUP = "oarpy_analyst"
"""The role that has the rights; its members have them too."""
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
_MOST_SESSIONS = 10
_LONGEST_STATEMENT = "10min"
_MEMBER = (
    "GRANT {group} TO {name}",
    "ALTER ROLE {name} IN DATABASE {database} SET search_path = {path}",
    "ALTER ROLE {name} IN DATABASE {database} SET default_transaction_read_only = on",
    "ALTER ROLE {name} IN DATABASE {database} SET statement_timeout = {longest}",
    "ALTER ROLE {name} IN DATABASE {database} SET idle_in_transaction_session_timeout = {longest}",
    "ALTER ROLE {name} CONNECTION LIMIT {sessions}",
)
_NO_TEMPORARY = ("REVOKE TEMPORARY ON DATABASE {database} FROM PUBLIC, {group}",)
# Locks that the server waits for, sleep, notices to its modules, and large objects, which dumps would stumble over.
_DISTURBING = r"^(pg_(try_)?advisory_|pg_sleep|pg_notify$|lo_|lowrite$|loread$)"
_EXECUTABLE = """
    SELECT p.oid::regprocedure::text, (SELECT relowner FROM pg_class WHERE oid = 'public.jobs'::regclass)::regrole::text
    FROM pg_proc p
    WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.proname ~ %s AND EXISTS (
        SELECT FROM aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
        WHERE a.grantee IN (0, to_regrole(%s)) AND a.privilege_type = 'EXECUTE')
    ORDER BY 1
"""


def make_analyst(connection: Connection, name: str, schema: str, password: str | None) -> bool:
    """Make ``name`` a role that reads the views, and finds those of ``schema`` without its name; return if it is new.

    It logs in with ``password``; None leaves its password as it is. The caller owns the transaction. Raises
    :class:`UsageError` when ``name`` is a role for another purpose, :class:`NotAllowed` without the right to make
    roles.
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


class Analyst(NamedTuple):
    """A role that reads the views: the schema it finds without its name, and the hash of its password, if known."""

    name: str
    schema: str
    password: str | None


# Hashes are for superusers alone.
_ANALYSTS = """
    SELECT r.rolname, coalesce((
               SELECT substr(one, 13) FROM pg_db_role_setting s, unnest(s.setconfig) one
               WHERE s.setrole = r.oid AND one LIKE 'search\\_path=%%'
                 AND s.setdatabase = (SELECT oid FROM pg_database WHERE datname = current_database()) LIMIT 1), ''), {}
    FROM pg_roles r JOIN pg_auth_members m ON m.member = r.oid
    WHERE m.roleid = to_regrole(%s) AND NOT r.rolsuper AND r.rolcanlogin ORDER BY 1
"""


def analysts(connection: Connection) -> list[Analyst]:
    """Return the analysts of this database, with the hashes of their passwords where the caller may read them."""
    may = connection.execute("SELECT has_table_privilege('pg_authid', 'SELECT')").fetchone() == (True,)
    hashed = SQL("(SELECT a.rolpassword FROM pg_authid a WHERE a.oid = r.oid)" if may else "NULL")
    rows = connection.execute(SQL(_ANALYSTS).format(hashed), [GROUP]).fetchall()
    return [Analyst(*row) for row in rows if row[1] in SCHEMAS]


def restore_analyst(connection: Connection, analyst: Analyst) -> None:
    """Make an analyst again, as :func:`make_analyst`; an analyst that is new on this server gets its password."""
    new = make_analyst(connection, analyst.name, analyst.schema, None)
    if new and analyst.password:
        # a hash is taken as it is
        connection.execute(SQL("ALTER ROLE {} PASSWORD {}").format(Identifier(analyst.name), Literal(analyst.password)))


def close(connection: Connection) -> list[str]:
    """Take the functions that would disturb the server from all other roles; return those that others may still call.

    These belong to PostgreSQL's superuser, who alone can take them away. A role that was given a function by hand keeps
    it.
    """
    for function, owner in _executable(connection):
        # for a role that lacks the right, PostgreSQL gives a warning and does nothing
        connection.execute(SQL("GRANT EXECUTE ON FUNCTION {} TO {}").format(SQL(function), SQL(owner)))
        connection.execute(SQL("REVOKE EXECUTE ON FUNCTION {} FROM PUBLIC").format(SQL(function)))
    return [function for function, _ in _executable(connection)]


def disturbing(connection: Connection) -> list[str]:
    """Return the functions by which analysts of this database, if it has any, could hold up its server."""
    return [function for function, _ in _executable(connection)] if analysts(connection) else []


def _executable(connection: Connection) -> list[tuple[LiteralString, LiteralString]]:
    return connection.execute(_EXECUTABLE, [_DISTURBING, GROUP]).fetchall()


def _make_group(connection: Connection) -> None:
    if not connection.execute(_GROUP_EXISTS, [GROUP]).fetchall():
        # another database of the server may just be doing the same
        with suppress(psycopg.errors.UniqueViolation, psycopg.errors.DuplicateObject), connection.transaction():
            connection.execute(SQL("CREATE ROLE {} NOLOGIN").format(Identifier(GROUP)))
    _run(connection, (*_RIGHTS, *_NO_TEMPORARY))
    close(connection)


def _run(connection: Connection, statements: tuple[str, ...], **names: Identifier) -> None:
    row = connection.execute(_DATABASE).fetchone()
    assert row is not None
    limits = {"longest": Literal(_LONGEST_STATEMENT), "sessions": Literal(_MOST_SESSIONS)}
    given = {"database": Identifier(row[0]), "group": Identifier(GROUP), **limits, **names}
    schemas = SQL(", ").join(map(Identifier, SCHEMAS))
    for statement in statements:
        connection.execute(SQL(statement).format(schemas=schemas, **given))
