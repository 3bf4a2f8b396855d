"""``oarpy history``: months of the past listed, moved, archived, restored and dropped."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import psycopg

from oarpy.client.past.archive_files import ArchiveFile, Manifest, archive_file, new_month
from oarpy.client.rendering import Column, JsonValue, Table, local_date
from oarpy.model.errors import NotFound, OarpyError, UsageError
from oarpy.modules.accounting import file_away
from oarpy.store.database import Connection
from oarpy.store.past import archives, months
from oarpy.store.past.archives import TableContent
from oarpy.store.past.months import PastMonth
from oarpy.store.past.tables import FiledTable, filed_tables

_MONTH = re.compile(r"(\d{4})-(\d\d)")
_UNITS = ("B", "kB", "MB", "GB", "TB")
_THOUSAND = 1000


@dataclass(frozen=True, slots=True)
class Restored:
    """The result of a restore: the month, its number of jobs, and whether all was there already."""

    month: date
    jobs: int
    already: bool


def parse_month(text: str, hint: str = "such as 2026-03") -> date:
    """Return the first day of ``YYYY-MM``. Raises :class:`UsageError`, which says ``hint``."""
    match = _MONTH.fullmatch(text)
    try:
        if match is not None:
            return date(int(match[1]), int(match[2]), 1)
    except ValueError:
        pass
    raise UsageError(f"'{text[:40]}' is no month", hint=hint)


def month_after(month: date) -> date:
    """Return the first day of the month after one, by its first day."""
    return (month.replace(day=28) + timedelta(days=4)).replace(day=1)


def move(connection: Connection, now: datetime, keep_live: int) -> int:
    """Move every job that is due to the past; return their number."""
    moved = 0
    while some := file_away(connection, now, keep_live):
        moved += some
    return moved


def archive(connection: Connection, month: date, path: Path) -> PastMonth:
    """Write a month to a file, and note that it has it. Raises :class:`NotFound`, :class:`UsageError`."""
    _present(connection, month)
    file = archive_file(path)
    try:
        with connection.transaction():
            archives.one_view(connection)
            tables = filed_tables(connection)
            manifest = _described(connection, tables, month)
            with file.writing(manifest) as target:
                for table in tables:
                    _write(connection, file, target, table, month, manifest.tables[table.name])
            months.note_archived(connection, month, str(path.resolve()))
    except psycopg.errors.SerializationFailure as error:
        raise OarpyError(f"jobs came to {month:%Y-%m} meanwhile", hint="remove the file and try again") from error
    return _present(connection, month)


def restore(connection: Connection, path: Path) -> Restored:
    """Bring a month back from its archive, all of it or nothing. A month that is there already is left as it is.

    Raises :class:`OarpyError` when the archive is damaged, or does not fit this database.
    """
    file = archive_file(path)
    manifest = file.manifest()
    month = parse_month(manifest.month[:7])
    with connection.transaction():
        months.lock(connection)
        archives.write_plainly(connection)
        tables = {table.name: table for table in filed_tables(connection)}
        _require_fit(connection, tables, manifest)
        if any(filed.jobs and filed.dropped_at is None for filed in months.months(connection, month)):
            _require_same(connection, tables, manifest, month, "another state of the month is there")
            return Restored(month, manifest.tables["jobs"].rows, already=True)
        for name, columns, rows in file.tables():
            if file.as_values:
                archives.rows_in(connection, tables[name], month, columns, rows)
            else:
                archives.copied_in(connection, tables[name], month, columns, rows)
        _require_same(connection, tables, manifest, month, "its rows are not those that were archived")
        if (job := archives.elsewhere(connection, month)) is not None:
            raise OarpyError(f"job {job} of '{path}' is there already", hint="nothing was changed")
        archives.keep_numbers(connection, tables.values(), month)
        jobs = archives.jobs_of(connection, month)
        if jobs:
            written = datetime.fromisoformat(manifest.written_at)
            months.note_restored(connection, month, jobs, str(path.resolve()), written)
    return Restored(month, len(jobs), already=False)


def drop(connection: Connection, month: date, *, unarchived: bool) -> PastMonth:
    """Drop a month; a month without an archive only when ``unarchived`` allows it. Return its former state."""
    former = _present(connection, month)
    if former.archive is None and not unarchived:
        raise OarpyError(
            f"{month:%Y-%m} has no archive that has all of it",
            hint=f"oarpy history archive {month:%Y-%m} --to FILE, or --yes to lose its {former.jobs} jobs",
        )
    with connection.transaction():
        months.lock(connection)
        months.drop(connection, filed_tables(connection), month)
    return former


def table(listed: Iterable[PastMonth]) -> str:
    """Return a line a month."""
    columns = (Column("Month", 7), Column("Jobs", 9), Column("Size", 9), Column("Dropped", 19), Column("Archive"))
    rows = (
        (
            f"{month.month:%Y-%m}",
            str(month.jobs),
            size_text(month.bytes),
            local_date(None if month.dropped_at is None else month.dropped_at.timestamp()),
            month.archive or "",
        )
        for month in listed
    )
    return Table(columns, tuple(rows)).text()


def document(listed: Iterable[PastMonth]) -> list[JsonValue]:
    """Return an object a month, dates in epoch seconds."""
    return [
        {
            "month": f"{month.month:%Y-%m}",
            "jobs": month.jobs,
            "bytes": month.bytes,
            "archive": month.archive,
            "archived_at": _epoch(month.archived_at),
            "dropped_at": _epoch(month.dropped_at),
        }
        for month in listed
    ]


def size_text(size: float) -> str:
    """Return a number of bytes for people.

    >>> size_text(81_920_000)
    '81.9 MB'
    """
    for unit in _UNITS:
        if size < _THOUSAND or unit == _UNITS[-1]:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= _THOUSAND
    raise AssertionError


def _epoch(moment: datetime | None) -> float | None:
    return None if moment is None else moment.timestamp()


def _present(connection: Connection, month: date) -> PastMonth:
    filed = months.months(connection, month)
    if not filed:
        raise NotFound(f"no job is filed in {month:%Y-%m}", hint="oarpy history list shows the months")
    if filed[0].dropped_at is not None:
        raise NotFound(f"{month:%Y-%m} was dropped", hint=f"its archive: {filed[0].archive or 'none'}")
    return filed[0]


def _described(connection: Connection, tables: Iterable[FiledTable], month: date) -> Manifest:
    contents = {
        table.name: archives.content(connection, table, month, archives.column_types(connection, table))
        for table in tables
    }
    return new_month(str(month), archives.revision(connection), datetime.now(UTC).isoformat(), contents)


def _write(
    connection: Connection, file: ArchiveFile, target: object, table: FiledTable, month: date, content: TableContent
) -> None:
    if file.as_values:
        kinds = archives.value_types(connection, table, month, content.columns)
        file.add(target, table.name, kinds, archives.rows_out(connection, table, month, kinds))
    else:
        file.add(target, table.name, content.columns, archives.copied_out(connection, table, month, content.columns))


def _require_fit(connection: Connection, tables: Mapping[str, FiledTable], manifest: Manifest) -> None:
    """Raise unless every column of the archive exists here with its type, and every other column may lack a value."""
    here = archives.revision(connection)
    for name, content in manifest.tables.items():
        columns = archives.column_types(connection, tables[name]) if name in tables else {}
        for column, kind in content.columns.items():
            if columns.get(column) != kind:
                _refuse(manifest, here, f"column {name}.{column} ({kind}) is {columns.get(column, 'not there')}")
        if name in tables and (lacking := archives.required_columns(connection, tables[name]) - content.columns.keys()):
            _refuse(manifest, here, f"it has no {name}.{min(lacking)}")
    if "jobs" not in manifest.tables:
        _refuse(manifest, here, "it has no jobs")


def _refuse(manifest: Manifest, here: str, what: str) -> None:
    raise OarpyError(
        f"the archive, of revision {manifest.revision[:20]}, does not fit revision {here}: {what[:200]}",
        hint="restore it with the version that wrote it, then upgrade; nothing was changed",
    )


def _require_same(
    connection: Connection, tables: Mapping[str, FiledTable], manifest: Manifest, month: date, otherwise: str
) -> None:
    for name, wanted in manifest.tables.items():
        content = archives.content(connection, tables[name], month, wanted.columns)
        if (content.rows, content.digest) != (wanted.rows, wanted.digest):
            raise OarpyError(
                f"{otherwise}: {name} has {content.rows} rows, the archive says {wanted.rows}",
                hint="nothing was changed",
            )
