"""Admission rules as admins handle them: list, history, add, edit, enable, disable, delete."""

from __future__ import annotations

import difflib
import re
from typing import TypedDict

from oarpy.admission.rules.rules import Rule, check_syntax
from oarpy.client.caller import current
from oarpy.client.session import Session
from oarpy.model.errors import NotFound, OarpyError, UsageError
from oarpy.store.platform import admission_rules as store

DEFAULT_PRIORITY = 50
HIGHEST_PRIORITY = 1_000_000

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}", re.ASCII)
_LONGEST_TEXT = 1_000_000


def as_rule(row: store.AdmissionRuleRow) -> Rule:
    """Return a stored rule as it is run."""
    return Rule(row.name, row.text, row.priority, row.enabled, row.id, row.version)


def all_rules(session: Session) -> list[store.AdmissionRuleRow]:
    """Return every rule in the order they run, including disabled rules."""
    return store.rules(session.connection)


def find(session: Session, name: str) -> store.AdmissionRuleRow:
    """Return the rule called ``name``; raise :class:`NotFound` with close names."""
    row = store.rule(session.connection, name)
    if row is None:
        raise _unknown(session, name)
    return row


def history(session: Session, name: str) -> list[store.VersionRow]:
    """Return every version of a rule, oldest first, also of a deleted rule."""
    rows = store.versions(session.connection, name)
    if not rows:
        raise _unknown(session, name)
    return rows


def version(session: Session, name: str, number: int) -> store.VersionRow:
    """Return one version of a rule."""
    rows = history(session, name)
    for row in rows:
        if row.version == number:
            return row
    raise NotFound(f"rule {name} has no version {number}", hint=f"versions {rows[0].version} to {rows[-1].version}")


def add(session: Session, name: str, text: str, *, priority: int, enabled: bool) -> None:
    """Add a rule after reading it as Python."""
    session.require_admin("add an admission rule")
    check_name(name)
    _check(name, text, priority)
    with session.connection.transaction():
        if not store.add(session.connection, name, text, priority=priority, enabled=enabled, by=session.user):
            raise UsageError(f"rule '{name}' exists", hint=f"oaradmissionrules edit {name}")


def change(
    session: Session, name: str, *, text: str | None = None, priority: int | None = None, enabled: bool | None = None
) -> tuple[int, int]:
    """Change the fields that are not None; return the rule's version before and after, equal when nothing changed."""
    session.require_admin("change an admission rule")
    with session.connection.transaction():
        row = find(session, name)
        _check(name, row.text if text is None else text, row.priority if priority is None else priority)
        after = store.change(session.connection, name, by=session.user, text=text, priority=priority, enabled=enabled)
    return row.version, row.version if after is None else after


def delete(session: Session, name: str) -> None:
    """Remove a rule; its versions are kept."""
    session.require_admin("delete an admission rule")
    with session.connection.transaction():
        if not store.delete(session.connection, name, by=session.user):
            raise _unknown(session, name)


class RuleDocument(TypedDict):
    """A rule without its text."""

    name: str
    priority: int
    enabled: bool
    version: int
    description: str


class RuleVersionDocument(TypedDict):
    """A version of a rule; ``changed_at`` is an ISO date."""

    name: str
    version: int
    priority: int
    enabled: bool
    text: str
    deleted: bool
    changed_at: str
    changed_by: str


def record(row: store.AdmissionRuleRow) -> RuleDocument:
    """Return a rule for JSON, without its text."""
    return {
        "name": row.name,
        "priority": row.priority,
        "enabled": row.enabled,
        "version": row.version,
        "description": as_rule(row).description,
    }


def version_record(row: store.VersionRow) -> RuleVersionDocument:
    """Return a version of a rule for JSON."""
    return {
        "name": row.name,
        "version": row.version,
        "priority": row.priority,
        "enabled": row.enabled,
        "text": row.text,
        "deleted": row.deleted,
        "changed_at": row.changed_at.isoformat(),
        "changed_by": row.changed_by,
    }


def read_text(path: str) -> str:
    """Return the text of a rule file (``-`` is standard input); raise :class:`UsageError` when it is none."""
    caller = current()
    try:
        standard_input = path == "-"
        data = (
            caller.read_input(_LONGEST_TEXT) if standard_input else caller.read_file(path, _LONGEST_TEXT, plain=False)
        )
    except OSError as error:
        raise UsageError(f"rule file '{path[:200]}' cannot be read: {error.strerror}", hint="check its name") from None
    return _decoded(path, data)


def _decoded(name: str, data: bytes) -> str:
    if len(data) > _LONGEST_TEXT:
        raise UsageError(f"rule file '{name}' is larger than {_LONGEST_TEXT} bytes", hint="a rule is a short text")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise UsageError(f"rule file '{name}' is not UTF-8", hint="save it as UTF-8") from None


def edit_text(name: str, text: str) -> str:
    """Let the user change ``text`` in ``$VISUAL``, ``$EDITOR`` or vi; return the saved text."""
    from oarpy.frontend.editor import EditorFailed

    try:
        return _decoded(f"{name}.py", current().edit(f"{name}.py", text))
    except EditorFailed as error:
        raise OarpyError(str(error), hint=error.hint) from None


def check_name(name: str) -> None:
    """Raise :class:`UsageError` unless ``name`` may name a rule."""
    if not _NAME.fullmatch(name):
        raise UsageError(f"'{name[:80]}' is not a rule name", hint="letters, digits and _ . - (at most 63)")


def _check(name: str, text: str, priority: int) -> None:
    if not 0 <= priority <= HIGHEST_PRIORITY:
        raise UsageError(f"priority {priority} is out of range", hint=f"0 (first) to {HIGHEST_PRIORITY}")
    if "\0" in text:
        raise UsageError(f"the text of rule {name} holds a NUL character", hint="remove it")
    if not text.strip():
        raise UsageError(f"the text of rule {name} is empty", hint="disable or delete a rule instead")
    check_syntax(Rule(name, text))


def _unknown(session: Session, name: str) -> NotFound:
    names = [row.name for row in store.rules(session.connection)]
    close = difflib.get_close_matches(name, names, n=1)
    return NotFound(f"no rule '{name[:80]}'", hint=f"did you mean {close[0]}?" if close else "oaradmissionrules list")
