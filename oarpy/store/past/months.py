"""The months of the past: their list, room for more, and the end of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime

import psycopg
from psycopg.sql import SQL, Identifier, Literal

from oarpy.model.errors import OarpyError
from oarpy.store.database import Connection
from oarpy.store.histories import rewrite
from oarpy.store.jobs import scripts
from oarpy.store.past.tables import FiledTable


@dataclass(frozen=True, slots=True)
class PastMonth:
    """A month of the past. ``bytes`` on disk, with indexes; ``archive`` is the file that has its present state.

    ``jobs`` counts its jobs, or the jobs it had when it was dropped.
    """

    month: date
    jobs: int
    bytes: int
    archive: str | None
    archived_at: datetime | None
    dropped_at: datetime | None


# With the size of its partitions: their names end in the month.
_MONTHS = """
    SELECT month, jobs, coalesce((
               SELECT sum(pg_total_relation_size(c.oid))::bigint FROM pg_class c
               WHERE c.relnamespace = 'oar_past'::regnamespace AND c.relkind = 'r'
                 AND right(c.relname, 8) = to_char(month, '_YYYY_MM')), 0),
           archive, archived_at, dropped_at
    FROM past_months WHERE %(month)s::date IS NULL OR month = %(month)s ORDER BY month
"""
_FILED = """
    INSERT INTO past_months AS m (month, jobs, first_job, last_job) VALUES (%(month)s, %(jobs)s, %(first)s, %(last)s)
    ON CONFLICT (month) DO UPDATE
        SET jobs = m.jobs + excluded.jobs, first_job = least(m.first_job, excluded.first_job),
            last_job = greatest(m.last_job, excluded.last_job), archive = NULL, archived_at = NULL
"""
_RETURNED = "UPDATE past_months SET jobs = jobs - %s, archive = NULL, archived_at = NULL WHERE month = %s"
_RESTORED = """
    INSERT INTO past_months (month, jobs, first_job, last_job, archive, archived_at)
    VALUES (%(month)s, %(jobs)s, %(first)s, %(last)s, %(archive)s, %(at)s)
    ON CONFLICT (month) DO UPDATE
        SET jobs = excluded.jobs, first_job = excluded.first_job, last_job = excluded.last_job,
            archive = excluded.archive, archived_at = excluded.archived_at, dropped_at = NULL
"""
_ARCHIVED = "UPDATE past_months SET archive = %s, archived_at = now() WHERE month = %s"
_DROPPED = "UPDATE past_months SET dropped_at = now() WHERE month = %s"
_COUNTED = """
    UPDATE past_months SET counted_until = (
        SELECT max(greatest(ended_at, started_at + walltime)) FROM oar_past.jobs j WHERE j.month = past_months.month)
    WHERE month = %s
"""
_CLOSED = "SELECT month FROM past_months WHERE dropped_at IS NOT NULL"
_IS_PARTITION = "SELECT to_regclass(%s) IS NOT NULL"
# A role that may only read cannot take this lock, as it could an advisory lock; readers go on.
_LOCK = "LOCK TABLE past_months IN SHARE ROW EXCLUSIVE MODE"
# For statements that name this relation: rows that reach a partition through its table meet the table's own trigger.
_PROTECT = """
    CREATE OR REPLACE TRIGGER history_stays BEFORE UPDATE OR DELETE OR TRUNCATE ON {}
    FOR EACH STATEMENT EXECUTE FUNCTION public.history_stays()
"""
_NOT_BLOCKED = "SET LOCAL lock_timeout = '10s'"


def lock(connection: Connection) -> None:
    """Wait for other changes of the past; no other session changes it until the end of the transaction."""
    connection.execute(_LOCK)


def months(connection: Connection, month: date | None = None) -> tuple[PastMonth, ...]:
    """Return all months, or this month if it is there, the earliest first."""
    return tuple(PastMonth(*row) for row in connection.execute(_MONTHS, {"month": month}))


def dropped(connection: Connection) -> frozenset[date]:
    """Return the months that were dropped."""
    return frozenset(month for (month,) in connection.execute(_CLOSED))


def note_filed(connection: Connection, month: date, jobs: Sequence[int]) -> None:
    """Note that jobs came to a month; its archive, if any, no longer has all of it."""
    values = {"month": month, "jobs": len(jobs), "first": min(jobs), "last": max(jobs)}
    connection.execute(_FILED, values)


def note_returned(connection: Connection, month: date, jobs: int) -> None:
    """Note that jobs went back from a month to the live tables."""
    connection.execute(_RETURNED, [jobs, month])


def note_restored(connection: Connection, month: date, jobs: Sequence[int], archive: str, at: datetime) -> None:
    """Note that a month has the content of its archive."""
    span = {"first": min(jobs), "last": max(jobs)}
    rewrite(connection)
    connection.execute(_RESTORED, {"month": month, "jobs": len(jobs), "archive": archive, "at": at, **span})


def note_archived(connection: Connection, month: date, archive: str) -> None:
    """Note which file has the month."""
    rewrite(connection)
    connection.execute(_ARCHIVED, [archive, month])


def partition(table: FiledTable, month: date) -> Identifier:
    """Return the name of the partition that has the rows of a month."""
    return Identifier("oar_past", f"{table.name}_{month:%Y_%m}")


def protect(connection: Connection, relation: Identifier) -> None:
    """Protect the rows of a past table: its owner can change them only on an explicit order."""
    connection.execute(SQL(_PROTECT).format(relation))


def make_partition(connection: Connection, table: FiledTable, month: date) -> None:
    """Make room for the rows of a month, unless there is some. Readers of the past are not disturbed."""
    name = partition(table, month)
    row = connection.execute(_IS_PARTITION, [name.as_string(connection)]).fetchone()
    if row == (True,):
        return
    connection.execute(SQL("CREATE TABLE {} (LIKE {} INCLUDING CONSTRAINTS)").format(name, table.past()))
    protect(connection, name)
    # attached: a partition that is created as one waits for every reader, and keeps others waiting
    statement = SQL("ALTER TABLE {} ATTACH PARTITION {} FOR VALUES IN ({})")
    connection.execute(statement.format(table.past(), name, Literal(month)))


def drop(connection: Connection, tables: Sequence[FiledTable], month: date) -> None:
    """Drop the partitions of a month, which frees their room at once. Raises when readers leave no moment for it."""
    rewrite(connection)
    connection.execute(_NOT_BLOCKED)
    connection.execute(_COUNTED, [month])
    try:
        for table in tables:
            connection.execute(SQL("DROP TABLE IF EXISTS {}").format(partition(table, month)))
    except psycopg.errors.LockNotAvailable as error:
        raise OarpyError("the past is being read", hint="try again when long queries have ended") from error
    connection.execute(_DROPPED, [month])
    scripts.forget_unused(connection)
