"""Admission rules and their versions; a trigger writes one version for every change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from oarpy.store.database import Connection
from oarpy.store.histories import sign
from oarpy.store.past.reading import with_past

_RULES = "SELECT rule_id, name, priority, enabled, version, rule_text FROM admission_rules ORDER BY priority, name"

_RULE = "SELECT rule_id, name, priority, enabled, version, rule_text FROM admission_rules WHERE name = %s"

_VERSIONS = """
    SELECT name, version, priority, enabled, rule_text, deleted, changed_at, changed_by
    FROM admission_rule_versions WHERE name = %s ORDER BY version
"""

# The version is written by a trigger before the conflict is seen, so the conflict is looked for first.
_ADD = """
    INSERT INTO admission_rules (name, priority, enabled, rule_text)
    SELECT %(name)s, %(priority)s, %(enabled)s, %(text)s
    WHERE NOT EXISTS (SELECT FROM admission_rules WHERE name = %(name)s)
    RETURNING name
"""

# A field that is NULL stays as it is.
_CHANGE = """
    UPDATE admission_rules
    SET priority = coalesce(%(priority)s, priority), enabled = coalesce(%(enabled)s, enabled),
        rule_text = coalesce(%(text)s, rule_text)
    WHERE name = %(name)s
    RETURNING version
"""

_DELETE = "DELETE FROM admission_rules WHERE name = %s RETURNING name"

_RECENT_REQUESTS = """
    SELECT submission_id, request FROM submissions
    WHERE request <> '{}' AND (%(user)s::text IS NULL OR request ->> 'user' = %(user)s)
    ORDER BY submission_id DESC LIMIT %(count)s
"""


@dataclass(frozen=True, slots=True)
class AdmissionRuleRow:
    """A rule as stored; lower ``priority`` runs first."""

    id: int
    name: str
    priority: int
    enabled: bool
    version: int
    text: str


@dataclass(frozen=True, slots=True)
class VersionRow:
    """A rule as it was from ``changed_at`` on; ``deleted`` marks the end of a rule."""

    name: str
    version: int
    priority: int
    enabled: bool
    text: str
    deleted: bool
    changed_at: datetime
    changed_by: str


def rules(connection: Connection) -> list[AdmissionRuleRow]:
    """Return every rule in the order they run, including disabled rules."""
    return [AdmissionRuleRow(*row) for row in connection.execute(_RULES)]


def rule(connection: Connection, name: str) -> AdmissionRuleRow | None:
    """Return the rule called ``name``."""
    row = connection.execute(_RULE, [name]).fetchone()
    return None if row is None else AdmissionRuleRow(*row)


def versions(connection: Connection, name: str) -> list[VersionRow]:
    """Return all versions of a rule, oldest first; also of a deleted rule."""
    return [VersionRow(*row) for row in connection.execute(_VERSIONS, [name])]


def add(connection: Connection, name: str, text: str, *, priority: int, enabled: bool, by: str) -> bool:
    """Add a rule; return False when the name is taken."""
    values = {"name": name, "priority": priority, "enabled": enabled, "text": text}
    with connection.transaction():
        sign(connection, by)
        return connection.execute(_ADD, values).fetchone() is not None


def change(
    connection: Connection,
    name: str,
    *,
    by: str,
    text: str | None = None,
    priority: int | None = None,
    enabled: bool | None = None,
) -> int | None:
    """Change the fields that are not None and return the rule's new version; None when there is no such rule."""
    values = {"name": name, "text": text, "priority": priority, "enabled": enabled}
    with connection.transaction():
        sign(connection, by)
        row = connection.execute(_CHANGE, values).fetchone()
    return None if row is None else int(row[0])


def delete(connection: Connection, name: str, *, by: str) -> bool:
    """Remove a rule, keeping its versions; return False when no rule has that name."""
    with connection.transaction():
        sign(connection, by)
        return connection.execute(_DELETE, [name]).fetchone() is not None


def recent_requests(connection: Connection, count: int, user: str | None) -> list[tuple[int, Mapping[str, object]]]:
    """Return the newest submissions (of ``user`` unless None) as rules first saw them, newest first: (id, request)."""
    with with_past(connection):
        rows = connection.execute(_RECENT_REQUESTS, {"count": count, "user": user}).fetchall()
    return [(submission, request) for submission, request in rows]
