"""Moves ended jobs to the past by month, and back if live jobs need them. Whole submissions move."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from itertools import groupby

from psycopg.sql import SQL, Composable, Identifier

from oarpy.store.database import Connection
from oarpy.store.histories import rewrite
from oarpy.store.past import months
from oarpy.store.past.tables import ROOT, FiledTable, filed_tables

BATCH = 500
"""Submissions that are moved together."""

# Submissions whose jobs are all over, counted, and older than the horizon. A submission stays if a live job waits for
# one of its jobs, or a job of another submission repeats one. Ended jobs that are still in the live table are few, or
# wait for this.
_DUE = """
    WITH ended AS MATERIALIZED (
        SELECT submission_id, max(ended_at) AS ended_at FROM public.jobs
        WHERE submission_id IN (SELECT submission_id FROM public.jobs WHERE ended_at < %(horizon)s)
        GROUP BY submission_id HAVING bool_and(coalesce(ended_at < %(horizon)s AND accounted, false))
    )
    SELECT submission_id, date_trunc('month', ended_at AT TIME ZONE 'UTC')::date
    FROM ended e
    WHERE NOT EXISTS (SELECT FROM public.jobs r JOIN public.jobs j ON j.job_id = r.resubmit_of
                      WHERE r.resubmit_of IS NOT NULL AND j.submission_id = e.submission_id
                        AND r.submission_id <> j.submission_id)
      AND NOT EXISTS (SELECT FROM public.job_dependencies d JOIN public.jobs w ON w.job_id = d.job_id
                          JOIN public.jobs j ON j.job_id = d.required_job_id
                      WHERE is_live(w.state) AND j.submission_id = e.submission_id)
    ORDER BY 2, e.ended_at LIMIT %(limit)s
"""

# Jobs of the past, and the jobs that they repeat: a live job may refer to live jobs only.
_NEEDED = """
    WITH RECURSIVE needed AS (
        SELECT month, submission_id, job_id, resubmit_of FROM oar_past.jobs WHERE job_id = ANY(%s)
        UNION
        SELECT j.month, j.submission_id, j.job_id, j.resubmit_of
        FROM needed n JOIN oar_past.jobs j ON j.job_id = n.resubmit_of OR j.submission_id = n.submission_id
    )
    SELECT month, array_agg(DISTINCT submission_id), count(*) FROM needed GROUP BY month ORDER BY month
"""

# A job that comes back announces nothing: its changes were announced when they happened.
_QUIET = "SELECT set_config('oarpy.returning', %s, true)"


@dataclass(frozen=True, slots=True)
class DueSubmission:
    """A submission that may be filed away, in the month in which the last of its jobs ended."""

    submission: int
    month: date


def due(connection: Connection, horizon: datetime, limit: int) -> tuple[DueSubmission, ...]:
    """Return up to ``limit`` submissions whose jobs all ended before ``horizon``, the first months first."""
    closed = months.dropped(connection)
    rows = connection.execute(_DUE, {"horizon": horizon, "limit": limit})
    return tuple(DueSubmission(submission, _open_month(month, closed)) for submission, month in rows)


def batches(submissions: Iterable[DueSubmission]) -> Iterator[tuple[date, list[int]]]:
    """Yield submissions that may be moved together: of one month, at most :data:`BATCH`."""
    for month, some in groupby(submissions, key=lambda submission: submission.month):
        numbers = [submission.submission for submission in some]
        for begin in range(0, len(numbers), BATCH):
            yield month, numbers[begin : begin + BATCH]


def move(connection: Connection, month: date, submissions: Sequence[int]) -> int:
    """File submissions away in a month; return how many jobs went.

    Raises psycopg's ``ForeignKeyViolation`` when another job has just come to need one of the jobs.
    """
    months.lock(connection)
    rewrite(connection)
    tables = filed_tables(connection)
    keys = _keys(connection, tables, "public", submissions)
    # a row that names another goes before it
    for table in reversed(tables):
        _file(connection, table, month, _meets(table, keys))
    if jobs := keys["jobs"]:
        months.note_filed(connection, month, jobs)
    return len(jobs)


def recall(connection: Connection, jobs: Sequence[int]) -> None:
    """Bring these jobs of the past, with the rest of their submissions, back to the live tables.

    The caller owns the transaction. Jobs that are not in the past stay where they are.
    """
    needed = connection.execute(_NEEDED, [list(jobs)]).fetchall()
    if not needed:
        return
    months.lock(connection)
    rewrite(connection)
    tables = filed_tables(connection)
    connection.execute(_QUIET, ["yes"])
    # submissions of all months together: a job of an earlier month may repeat a job of a later month
    _return(connection, tables, [submission for _, some, _ in needed for submission in some])
    for month, _, count in needed:
        months.note_returned(connection, month, count)
    connection.execute(_QUIET, [""])


def _open_month(month: date, closed: frozenset[date]) -> date:
    """Return the month, or the first later month that was not dropped: a dropped month gets no more rows."""
    while month in closed:
        month = date(month.year + month.month // 12, month.month % 12 + 1, 1)
    return month


def _file(connection: Connection, table: FiledTable, month: date, rows: Composable) -> None:
    exists = connection.execute(SQL("SELECT EXISTS (SELECT FROM {} t WHERE {})").format(table.live(), rows)).fetchone()
    if exists != (True,):
        return
    months.make_partition(connection, table, month)
    statement = SQL("""
        WITH gone AS (DELETE FROM {live} t WHERE {rows} RETURNING t.*)
        INSERT INTO {past} (month, {columns}) SELECT {month}, {columns} FROM gone
    """)
    connection.execute(
        statement.format(live=table.live(), rows=rows, past=table.past(), columns=table.column_list(), month=month)
    )


def _return(connection: Connection, tables: Sequence[FiledTable], submissions: Sequence[int]) -> None:
    keys = _keys(connection, tables, "oar_past", submissions)
    back = SQL("""
        INSERT INTO {live} ({columns}) OVERRIDING SYSTEM VALUE SELECT {columns} FROM {past} t WHERE {rows}
    """)
    gone = SQL("DELETE FROM {past} t WHERE {rows}")
    for statement, order in ((back, tables), (gone, tuple(reversed(tables)))):
        for table in order:
            rows = SQL(" AND ").join([_meets(table, keys), *_complete(table)])
            names = {"live": table.live(), "past": table.past(), "columns": table.column_list(), "rows": rows}
            connection.execute(statement.format(**names))


def _complete(table: FiledTable) -> list[Composable]:
    """Return conditions: a row that names several others comes back when all of them are live."""
    if len({link.column for link in table.links}) == 1:
        return []
    text = SQL("(t.{column} IS NULL OR EXISTS (SELECT FROM {parent} p WHERE p.{key} = t.{column}))")
    return [
        text.format(column=Identifier(link.column), parent=Identifier("public", link.parent), key=Identifier(link.key))
        for link in table.links
    ]


def _keys(
    connection: Connection, tables: Sequence[FiledTable], schema: str, submissions: Sequence[int]
) -> Mapping[str, list[int]]:
    """Return which rows of each table are meant, for the tables that others name."""
    named = {link.parent: link.key for table in tables for link in table.links}
    keys: dict[str, list[int]] = {ROOT: list(submissions)}
    for table in tables:
        if table.name in named and table.name != ROOT:
            statement = SQL("SELECT t.{} FROM {} t WHERE {} ORDER BY 1").format(
                Identifier(named[table.name]), Identifier(schema, table.name), _meets(table, keys)
            )
            keys[table.name] = [key for (key,) in connection.execute(statement)]
    return keys


def _meets(table: FiledTable, keys: Mapping[str, list[int]]) -> Composable:
    """Return the condition that a row ``t`` has one of these keys, or names a row that has."""
    if not table.links:
        return SQL("t.submission_id = ANY({})").format(keys[ROOT])
    text = SQL("t.{} = ANY({})")
    return SQL("({})").format(
        SQL(" OR ").join(text.format(Identifier(link.column), keys[link.parent]) for link in table.links)
    )
