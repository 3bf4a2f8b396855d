"""Rows of a month on their way to archive files and back, with figures that tell whether they are whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import date

from psycopg import Copy
from psycopg.sql import SQL, Composed, Identifier

from oarpy.store.database import Connection
from oarpy.store.past import months
from oarpy.store.past.tables import FiledTable

Row = tuple[object, ...]

_AT_ONCE = 10_000
"""Rows fetched or written together."""

_INSTANT = "timestamp with time zone"
NATIVE_TYPES = ("bigint", "integer", "smallint", "boolean", "text", "text[]", _INSTANT)
"""SQL types whose values are handed out as Python values; values of all others are as PostgreSQL writes them."""


@dataclass(frozen=True, slots=True)
class TableContent:
    """The content of a table for a month: columns with their SQL types, the number of rows, the sum of their hashes."""

    columns: Mapping[str, str]
    rows: int
    digest: str


_TYPES = """
    SELECT a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull AND NOT a.atthasdef
    FROM pg_attribute a
    WHERE a.attrelid = to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped AND a.attname <> 'month'
    ORDER BY a.attnum
"""
# Numbers that PostgreSQL gives, and how far it is: a sequence belongs to a column.
_NUMBERED = """
    SELECT a.attname, pg_get_serial_sequence('public."' || c.relname || '"', a.attname)
    FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
    WHERE c.relnamespace = 'public'::regnamespace AND c.relname = %s AND a.attidentity <> ''
"""
_ADVANCE = """
    SELECT setval({sequence}, n.highest) FROM (SELECT max({column}) AS highest FROM {past} WHERE month = {month}) n
    WHERE n.highest > (SELECT last_value FROM {sequence_table})
"""
# A job is in one place.
_TWICE = """
    SELECT min(job_id) FROM oar_past.jobs p
    WHERE month = %(month)s AND (
        EXISTS (SELECT FROM public.jobs j WHERE j.job_id = p.job_id)
        OR EXISTS (SELECT FROM oar_past.jobs o WHERE o.job_id = p.job_id AND o.month <> p.month))
"""
_JOBS = "SELECT job_id FROM oar_past.jobs WHERE month = %s"
_REVISION = "SELECT version_num FROM alembic_version"
# Texts of values must not depend on the session that reads them.
_PLAIN = "SET LOCAL TimeZone = 'UTC'; SET LOCAL DateStyle = 'ISO'; SET LOCAL IntervalStyle = 'postgres'"
_ONE_VIEW = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"


def one_view(connection: Connection) -> None:
    """Make a transaction that has just begun read one state of the past, and write values in one way."""
    connection.execute(_ONE_VIEW)
    write_plainly(connection)


def write_plainly(connection: Connection) -> None:
    """Make the database write values in one way until the transaction ends."""
    connection.execute(_PLAIN)


def revision(connection: Connection) -> str:
    """Return the revision of the schema."""
    row = connection.execute(_REVISION).fetchone()
    assert row is not None
    return str(row[0])


def column_types(connection: Connection, table: FiledTable) -> dict[str, str]:
    """Return the columns of a table of the past and their SQL types, in order."""
    return {name: kind for name, kind, _ in connection.execute(_TYPES, [f'oar_past."{table.name}"'])}


def required_columns(connection: Connection, table: FiledTable) -> frozenset[str]:
    """Return the columns that every row needs a value for, as there is no default."""
    rows = connection.execute(_TYPES, [f'oar_past."{table.name}"']).fetchall()
    return frozenset(name for name, _, required in rows if required)


def content(connection: Connection, table: FiledTable, month: date, columns: Mapping[str, str]) -> TableContent:
    """Return the content of a table for a month, in these columns. The digest does not depend on the order of rows."""
    statement = SQL("""
        SELECT count(*), coalesce(sum(hashtextextended(r::text, 0)::numeric), 0)::text
        FROM (SELECT {} FROM {} WHERE month = {}) AS r
    """).format(_names(columns), table.past(), month)
    row = connection.execute(statement).fetchone()
    assert row is not None
    return TableContent(columns, row[0], row[1])


def copied_out(connection: Connection, table: FiledTable, month: date, columns: Iterable[str]) -> Iterator[bytes]:
    """Yield the rows of a month in the text form of COPY."""
    statement = SQL("COPY (SELECT {} FROM {} WHERE month = {}) TO STDOUT")
    with connection.cursor().copy(statement.format(_names(columns), table.past(), month)) as copy:
        for block in copy:
            yield bytes(block)


def copied_in(
    connection: Connection, table: FiledTable, month: date, columns: Sequence[str], lines: Iterable[bytes]
) -> None:
    """Add rows in the text form of COPY to a month."""
    with _copy_in(connection, table, month, columns) as copy:
        prefix = f"{month}\t".encode()
        for line in lines:
            copy.write(prefix + line)


def value_types(connection: Connection, table: FiledTable, month: date, columns: Mapping[str, str]) -> dict[str, str]:
    """Return the types as which values are handed out: an instant that is infinite makes its column one of texts."""
    instants = [name for name, kind in columns.items() if kind == _INSTANT]
    if not instants:
        return dict(columns)
    parts = SQL(", ").join(SQL("bool_and(isfinite({}))").format(Identifier(name)) for name in instants)
    row = connection.execute(SQL("SELECT {} FROM {} WHERE month = {}").format(parts, table.past(), month)).fetchone()
    infinite = {name for name, finite in zip(instants, row or (), strict=True) if finite is False}
    return {name: "infinite instant" if name in infinite else kind for name, kind in columns.items()}


def rows_out(connection: Connection, table: FiledTable, month: date, columns: Mapping[str, str]) -> Iterator[list[Row]]:
    """Yield the rows of a month, some at a time, as values of Python."""
    shown = SQL(", ").join(
        SQL("{}" if kind in NATIVE_TYPES else "{}::text").format(Identifier(name)) for name, kind in columns.items()
    )
    statement = SQL("SELECT {} FROM {} WHERE month = {}").format(shown, table.past(), month)
    with connection.cursor("archive") as cursor:
        cursor.execute(statement)
        while rows := cursor.fetchmany(_AT_ONCE):
            yield rows


def rows_in(
    connection: Connection, table: FiledTable, month: date, columns: Sequence[str], rows: Iterable[Sequence[object]]
) -> None:
    """Add rows of Python's values to a month."""
    with _copy_in(connection, table, month, columns) as copy:
        for row in rows:
            copy.write_row((month, *row))


def jobs_of(connection: Connection, month: date) -> list[int]:
    """Return the jobs of a month."""
    return [job for (job,) in connection.execute(_JOBS, [month])]


def elsewhere(connection: Connection, month: date) -> int | None:
    """Return a job of the month that is a live row too, or in another month; None when there is none."""
    row = connection.execute(_TWICE, {"month": month}).fetchone()
    return None if row is None else row[0]


def keep_numbers(connection: Connection, tables: Iterable[FiledTable], month: date) -> None:
    """Make the database never assign a number that a row of the month has."""
    for table in tables:
        for column, sequence in connection.execute(_NUMBERED, [table.name]).fetchall():
            schema, name = sequence.split(".")
            connection.execute(
                SQL(_ADVANCE).format(
                    sequence=sequence,
                    column=Identifier(column),
                    past=table.past(),
                    month=month,
                    sequence_table=Identifier(schema, name.strip('"')),
                )
            )


def _copy_in(
    connection: Connection, table: FiledTable, month: date, columns: Sequence[str]
) -> AbstractContextManager[Copy]:
    months.make_partition(connection, table, month)
    statement = SQL("COPY {} (month, {}) FROM STDIN").format(table.past(), _names(columns))
    return connection.cursor().copy(statement)


def _names(columns: Iterable[str]) -> Composed:
    return SQL(", ").join(map(Identifier, columns))
