"""Tokens: made, listed and revoked by their users; the secret is shown once and is nowhere kept."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TypedDict

from oarpy.client.rendering import Column, JsonValue, Table
from oarpy.client.session import Session
from oarpy.model.durations import parse_duration
from oarpy.model.errors import NotFound, UsageError
from oarpy.store.database import Connection
from oarpy.store.platform import tokens as store
from oarpy.store.platform.tokens import NewToken, TokenRow

PREFIX = "oarpy_"
"""The beginning of every secret, so that scanners of leaked secrets know it."""

_LONGEST = timedelta(days=366)
_LONGEST_LABEL = 100
_UNITS = {"m": 60, "h": 3600, "d": 86400, "w": 604800}


class Scope(StrEnum):
    """The most that a token allows, each including the scopes before it."""

    READ = "read"
    SUBMIT = "submit"
    ADMIN = "admin"

    def allows(self, other: Scope) -> bool:
        """Tell whether this scope allows an action that needs ``other``."""
        order = tuple(Scope)
        return order.index(self) >= order.index(other)


@dataclass(frozen=True, slots=True)
class MadeToken:
    """A new token; ``secret`` is the text that requests carry."""

    token_id: int
    secret: str
    user: str
    scope: Scope
    expires_at: datetime

    def record(self) -> dict[str, JsonValue]:
        """Return it for JSON."""
        return {
            "token_id": self.token_id,
            "token": self.secret,
            "user": self.user,
            "scope": str(self.scope),
            "expires_at": self.expires_at.timestamp(),
        }


def parse_lifetime(text: str) -> timedelta:
    """Read ``30d``, ``12h``, ``90m``, ``2w`` or ``h:mm:ss``; raise :class:`UsageError`."""
    number, unit = text[:-1], text[-1:]
    if unit in _UNITS and number.isascii() and number.isdigit() and len(number) < 7:
        length = timedelta(seconds=int(number) * _UNITS[unit])
    else:
        length = timedelta(seconds=parse_duration(text))
    if not timedelta() < length <= _LONGEST:
        raise UsageError(f"a token cannot be valid for '{text[:40]}'", hint=f"at most {_LONGEST.days}d")
    return length


def parse_scope(text: str) -> Scope:
    """Return the scope of this name; raise :class:`UsageError`."""
    try:
        return Scope(text)
    except ValueError:
        raise UsageError(f"'{text[:40]}' is not a scope", hint=f"one of {', '.join(Scope)}") from None


def make(session: Session, scope: Scope, lifetime: timedelta, label: str = "", user: str | None = None) -> MadeToken:
    """Make a token for the caller, or as an admin for ``user``; raise :class:`NotAllowed`, :class:`UsageError`."""
    owner = session.user if user is None else user
    if owner != session.user:
        session.require_admin("make tokens for others")
    if scope is Scope.ADMIN:
        session.require_admin("make tokens of scope admin")
    if len(label) > _LONGEST_LABEL or not label.isprintable():
        raise UsageError("the label of a token is a line", hint=f"at most {_LONGEST_LABEL} characters")
    return _make(session.connection, NewToken(owner, scope, "", _end(lifetime), label, made_by=session.user))


def log_in(connection: Connection, parent: TokenRow, lifetime: timedelta) -> MadeToken:
    """Make the session of a browser from the token that its user gave; it ends with that at the latest."""
    end = min(_end(lifetime), parent.expires_at)
    new = NewToken(parent.user_name, parent.scope, "", end, "browser", parent.user_name, parent.token_id)
    return _make(connection, new)


def find(connection: Connection, secret: str) -> TokenRow | None:
    """Return the valid token with this secret, None when there is none."""
    return store.valid(connection, _digest(secret)) if secret.startswith(PREFIX) else None


def listed(session: Session, *, everybody: bool = False) -> list[TokenRow]:
    """Return the caller's tokens, or with ``everybody`` all tokens, for an admin; raise :class:`NotAllowed`."""
    if everybody:
        session.require_admin("list the tokens of others")
    return store.tokens(session.connection, None if everybody else session.user)


def revoke(session: Session, ids: Sequence[int]) -> tuple[int, ...]:
    """End tokens of the caller, as an admin anybody's, all or none; raise :class:`NotFound`."""
    with session.connection.transaction():
        known = {row.token_id: row for row in store.tokens(session.connection, None)}
        for number in ids:
            if number not in known or not (session.is_admin or known[number].user_name == session.user):
                raise NotFound(f"you have no token {number}", hint="oartoken list shows yours")
        store.revoke(session.connection, ids)
    return tuple(ids)


class TokenDocument(TypedDict):
    """A token without its secret; times in epoch seconds."""

    token_id: int
    user: str
    scope: str
    label: str
    browser: bool
    made_at: float
    made_by: str
    expires_at: float
    state: str
    used_at: float | None
    used_from: str | None


def record(row: TokenRow) -> TokenDocument:
    """Return a token for JSON: never its secret."""
    return {
        "token_id": row.token_id,
        "user": row.user_name,
        "scope": row.scope,
        "label": row.label,
        "browser": row.parent_id is not None,
        "made_at": row.made_at.timestamp(),
        "made_by": row.made_by,
        "expires_at": row.expires_at.timestamp(),
        "state": _state(row),
        "used_at": None if row.used_at is None else row.used_at.timestamp(),
        "used_from": row.used_from or None,
    }


_TITLES = ("id", "user", "scope", "state", "expires", "used", "from", "label")


def table(rows: Sequence[TokenRow]) -> str:
    """Return a line a token."""
    cells = tuple(
        (
            str(row.token_id),
            row.user_name,
            row.scope,
            _state(row),
            row.expires_at.astimezone().strftime("%Y-%m-%d %H:%M"),
            row.used_at.astimezone().strftime("%Y-%m-%d %H:%M") if row.used_at else "never",
            row.used_from,
            row.label,
        )
        for row in rows
    )
    return Table(tuple(map(Column, _TITLES)), cells).text()


def _make(connection: Connection, new: NewToken) -> MadeToken:
    secret = PREFIX + secrets.token_urlsafe(32)
    number = store.add(connection, replace(new, digest=_digest(secret)))
    return MadeToken(number, secret, new.user_name, Scope(new.scope), new.expires_at)


def _digest(secret: str) -> str:
    """Return the digest that is kept of a secret: 256 random bits need no salt and no slow hash."""
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()


def _end(lifetime: timedelta) -> datetime:
    return datetime.now(UTC) + lifetime


def _state(row: TokenRow) -> str:
    if row.revoked_at is not None:
        return "revoked"
    return "valid" if row.expires_at > datetime.now(UTC) else "expired"
