"""The rows of ``oarpy export`` for a month (UTC), and a mark that tells whether they have changed since."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date

from psycopg.sql import SQL, Identifier

from oarpy.store.database import Connection

Row = tuple[object, ...]

_AT_ONCE = 10_000
"""Rows fetched together."""

_MONTH = {
    "jobs": "ended_at >= {begin}::timestamp AT TIME ZONE 'UTC' AND ended_at < {end}::timestamp AT TIME ZONE 'UTC'",
    "accounting": "day >= {begin}::timestamp AT TIME ZONE 'UTC' AND day < {end}::timestamp AT TIME ZONE 'UTC'",
    "daily_jobs": "day >= {begin} AND day < {end}",
}
DATASETS = tuple(_MONTH)
"""Views of ``oar_report``, each a data set."""

# Jobs do not change once they are over. Jobs of a dropped month are gone: their exported rows stay.
_CONTENTS = """
    WITH counted AS (
        SELECT date_trunc('month', day)::date AS month, sum(jobs)::text AS jobs FROM job_days GROUP BY 1
    ), used AS (
        SELECT date_trunc('month', window_start AT TIME ZONE 'UTC')::date AS month,
               count(*) || ' ' || sum(consumption) AS sums FROM accounting GROUP BY 1
    )
    SELECT month, coalesce(jobs, '0'), coalesce(sums, '0'),
           month IN (SELECT p.month FROM past_months p WHERE p.dropped_at IS NOT NULL)
    FROM counted FULL JOIN used USING (month) ORDER BY month
"""


def one_view(connection: Connection) -> None:
    """Make a transaction that has just begun read one state of the database, and write nothing."""
    connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
    connection.execute("SET LOCAL jit = off")


def contents(connection: Connection) -> dict[tuple[str, date], str]:
    """Return for each data set and month a text that changes when its content does."""
    texts = {}
    for month, jobs, sums, dropped in connection.execute(_CONTENTS):
        texts["accounting", month] = sums
        texts["daily_jobs", month] = jobs
        if not dropped:
            texts["jobs", month] = jobs
    return texts


def columns(connection: Connection, dataset: str) -> dict[str, str]:
    """Return the columns of a data set and their SQL types, in order."""
    rows = connection.execute(
        "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute"
        " WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
        [f"oar_report.{dataset}"],
    )
    return dict(rows.fetchall())


def rows_of(
    connection: Connection, dataset: str, month: date, names: Mapping[str, str], native: tuple[str, ...]
) -> Iterator[list[Row]]:
    """Yield the rows of a month, some at a time; values of types that are not ``native`` are texts."""
    end = date(month.year + month.month // 12, month.month % 12 + 1, 1)
    shown = SQL(", ").join(
        SQL("{}" if kind in native else "{}::text").format(Identifier(name)) for name, kind in names.items()
    )
    condition = SQL(_MONTH[dataset]).format(begin=month, end=end)
    statement = SQL("SELECT {} FROM {} WHERE {}").format(shown, Identifier("oar_report", dataset), condition)
    with connection.cursor("export") as cursor:
        cursor.execute(statement)
        while rows := cursor.fetchmany(_AT_ONCE):
            yield rows
