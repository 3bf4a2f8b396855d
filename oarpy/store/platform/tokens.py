"""Tokens, which prove the user of a request over the web, and the record of such requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, LiteralString

from psycopg.rows import class_row
from psycopg.sql import SQL

from oarpy.store.database import Connection

ActionKind = Literal["all", "deeds", "logins"]


@dataclass(frozen=True, slots=True)
class TokenRow:
    """A token without its secret. A session has the ``parent`` that its user logged in with."""

    token_id: int
    user_name: str
    scope: str
    label: str
    parent_id: int | None
    made_at: datetime
    made_by: str
    expires_at: datetime
    revoked_at: datetime | None
    used_at: datetime | None
    used_from: str


@dataclass(frozen=True, slots=True)
class NewToken:
    """The stored part of a new token: the SHA-256 of its secret in hexadecimal, never the secret."""

    user_name: str
    scope: str
    digest: str
    expires_at: datetime
    label: str = ""
    made_by: str = ""
    parent_id: int | None = None


@dataclass(frozen=True, slots=True)
class NewAction:
    """A request that may change something, before it is carried out; ``source`` says how its user is known."""

    user_name: str
    source: str
    token_id: int | None
    address: str
    method: str
    path: str
    detail: str


@dataclass(frozen=True, slots=True)
class ActionRow:
    """An action as it is on record; ``status`` is that of the answer, None when the process ended before."""

    action_id: int
    at: datetime
    user_name: str
    source: str
    token_id: int | None
    address: str
    method: str
    path: str
    detail: str
    status: int | None


_COLUMNS = """
    token_id, user_name, scope, label, parent_id, made_at, made_by, expires_at, revoked_at, used_at, used_from
"""
_ADD = """
    INSERT INTO access_tokens (user_name, scope, digest, expires_at, label, made_by, parent_id)
    VALUES (%s, %s, %s, %s, %s, %s, %s) RETURNING token_id
"""
# Valid now, as is the token that a session comes from.
_VALID = f"""
    SELECT {_COLUMNS} FROM access_tokens t
    WHERE digest = %s AND expires_at > clock_timestamp() AND revoked_at IS NULL
      AND NOT EXISTS (SELECT FROM access_tokens p WHERE p.token_id = t.parent_id AND p.revoked_at IS NOT NULL)
"""  # noqa: S608
# One write a minute is enough to tell whether a token is in use.
_USED = """
    UPDATE access_tokens SET used_at = clock_timestamp(), used_from = %(address)s
    WHERE token_id = %(token)s
      AND (used_at IS NULL OR used_at < clock_timestamp() - interval '1 minute' OR used_from <> %(address)s)
"""
# The tokens of one user, or of everybody; sessions are shown as long as they can be used.
_LIST = f"""
    SELECT {_COLUMNS} FROM access_tokens
    WHERE (%(user)s::text IS NULL OR user_name = %(user)s)
      AND (parent_id IS NULL OR (revoked_at IS NULL AND expires_at > clock_timestamp()))
    ORDER BY token_id
"""  # noqa: S608
_REVOKE = """
    UPDATE access_tokens SET revoked_at = clock_timestamp()
    WHERE (token_id = ANY(%(ids)s) OR parent_id = ANY(%(ids)s)) AND revoked_at IS NULL
"""
_BEGIN_ACTION = """
    INSERT INTO web_actions (user_name, source, token_id, address, method, path, detail)
    VALUES (%s, %s, %s, %s, %s, %s, %s) RETURNING action_id
"""
_END_ACTION = "UPDATE web_actions SET status = %s WHERE action_id = %s"

_LOGINS, _QUESTIONS = "/log(in|out)$", "/confirm/[a-z-]+$"
_KINDS: dict[ActionKind, LiteralString] = {
    "all": "true",
    "deeds": f"path !~ '{_LOGINS}' AND path !~ '{_QUESTIONS}'",
    "logins": f"path ~ '{_LOGINS}'",
}

_ACTIONS: LiteralString = """
    SELECT action_id, at, user_name, source, token_id, address, method, path, detail, status FROM web_actions
    WHERE (%(before)s::bigint IS NULL OR action_id < %(before)s) AND (%(user)s = '' OR user_name = %(user)s) AND {kind}
    ORDER BY action_id DESC LIMIT %(limit)s
"""


def add(connection: Connection, new: NewToken) -> int:
    """Keep a new token; return its number."""
    values = (new.user_name, new.scope, new.digest, new.expires_at, new.label, new.made_by, new.parent_id)
    row = connection.execute(_ADD, values).fetchone()
    assert row is not None
    return int(row[0])


def valid(connection: Connection, digest: str) -> TokenRow | None:
    """Return the token with this digest if it may be used now."""
    with connection.cursor(row_factory=class_row(TokenRow)) as cursor:
        return cursor.execute(_VALID, [digest]).fetchone()


def note_use(connection: Connection, token: int, address: str) -> None:
    """Keep when and from where a token was used last, to the minute."""
    connection.execute(_USED, {"token": token, "address": address})


def tokens(connection: Connection, user: str | None) -> list[TokenRow]:
    """Return the tokens of a user, None: of everybody, in order of their numbers."""
    with connection.cursor(row_factory=class_row(TokenRow)) as cursor:
        return cursor.execute(_LIST, {"user": user}).fetchall()


def revoke(connection: Connection, ids: Sequence[int]) -> None:
    """End tokens, and the sessions that came from them."""
    connection.execute(_REVOKE, {"ids": list(ids)})


def begin_action(connection: Connection, new: NewAction) -> int:
    """Write down an action before it is done; return its number."""
    values = (new.user_name, new.source, new.token_id, new.address, new.method, new.path, new.detail)
    row = connection.execute(_BEGIN_ACTION, values).fetchone()
    assert row is not None
    return int(row[0])


def end_action(connection: Connection, action: int, status: int) -> None:
    """Write down how it was answered."""
    connection.execute(_END_ACTION, [status, action])


def actions(
    connection: Connection, before: int | None, limit: int, kind: ActionKind = "all", user: str = ""
) -> list[ActionRow]:
    """Return at most ``limit`` actions with smaller numbers than ``before``, the newest first.

    ``kind``: all, deeds (actions that did or changed something), or logins; ``user``: of one user alone.
    """
    statement = SQL(_ACTIONS).format(kind=SQL(_KINDS[kind]))
    with connection.cursor(row_factory=class_row(ActionRow)) as cursor:
        return cursor.execute(statement, {"before": before, "limit": limit, "user": user}).fetchall()
