"""``oaraccounting``: the accounting module run by hand, and care of its sums."""

from __future__ import annotations

from datetime import datetime

from oarpy.client.session import Session
from oarpy.modules.accounting import account
from oarpy.store import accounting


def update(session: Session, *, reinitialize: bool = False) -> int:
    """Count every ended job that is not counted yet and return how many. Only an admin may.

    ``reinitialize`` drops all sums first and counts every job again.
    """
    session.require_admin("run the accounting")
    if reinitialize:
        with session.connection.transaction():
            accounting.forget(session.connection)
    total = 0
    while counted := account(session.connection, session.configuration.modules.accounting_window):
        total += counted
    return total


def delete_before(session: Session, moment: datetime) -> int:
    """Drop the sums of windows that ended before ``moment`` and return how many. Only an admin may."""
    session.require_admin("delete accounting windows")
    with session.connection.transaction():
        return accounting.delete_before(session.connection, moment)
