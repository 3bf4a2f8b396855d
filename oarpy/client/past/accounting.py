"""``oaraccounting``: the accounting module run by hand, and care of its sums."""

from __future__ import annotations

from datetime import datetime

from oarpy.client.session import Session
from oarpy.model.errors import OarpyError
from oarpy.modules.accounting import account
from oarpy.store import accounting
from oarpy.store.database import Connection
from oarpy.store.past import months
from oarpy.store.past.reading import past_alone


def update(session: Session, *, reinitialize: bool = False) -> int:
    """Count every ended job that is not counted yet and return how many. Only an admin may.

    ``reinitialize`` drops all sums first and counts every job again, past jobs too. Raises :class:`OarpyError` when
    months of the past were dropped: their sums would be lost.
    """
    session.require_admin("run the accounting")
    connection = session.connection
    total = 0
    if reinitialize:
        with connection.transaction():
            _require_all_months(connection)
            accounting.forget(connection)
            with past_alone(connection):
                accounting.forget_marks(connection)
                total += _count(session)
    return total + _count(session)


def _count(session: Session) -> int:
    total = 0
    while counted := account(session.connection, session.configuration.modules.accounting_window):
        total += counted
    return total


def _require_all_months(connection: Connection) -> None:
    if gone := sorted(months.dropped(connection)):
        listed = ", ".join(f"{month:%Y-%m}" for month in gone)
        raise OarpyError(
            f"the jobs of {listed} were dropped, and their sums would be lost",
            hint="restore their archives first: oarpy history restore FILE",
        )


def delete_before(session: Session, moment: datetime) -> int:
    """Drop the sums of windows that ended before ``moment`` and return how many. Only an admin may."""
    session.require_admin("delete accounting windows")
    with session.connection.transaction():
        return accounting.delete_before(session.connection, moment)
