"""``oarpy history``: the months of the past, moved there, archived, restored and dropped."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from oarpy.client.rendering import json_text, write

if TYPE_CHECKING:
    from oarpy.configuration import Configuration
    from oarpy.store.database import Connection

app = typer.Typer(no_args_is_help=True, help="The past: ended jobs by month, their archives.")

Json = Annotated[bool, typer.Option("-J", "--json", help="Print JSON.")]
Month = Annotated[str, typer.Argument(metavar="YYYY-MM", help="A month, in UTC.")]


@app.command("list")
def list_months(as_json: Json = False) -> None:
    """Print a line for each month of the past: its jobs, its size, its archive."""
    from oarpy.client.past import past_months
    from oarpy.store.past import months

    with _database() as (connection, _):
        listed = months.months(connection)
    write(json_text(past_months.document(listed)) if as_json else past_months.table(listed))


@app.command()
def move(as_json: Json = False) -> None:
    """Move the jobs that are due (history.keep_live) to the past now; the module accounting does that by itself."""
    from oarpy.client.past import past_months

    with _database() as (connection, configuration):
        jobs = past_months.move(connection, datetime.now(UTC), configuration.history.keep_live)
    write(json_text({"jobs": jobs}) if as_json else f"{jobs} jobs moved to the past\n")


@app.command()
def archive(
    month: Month,
    to: Annotated[Path, typer.Option("--to", metavar="FILE", help="NAME.sql, NAME.sql.gz or NAME.parquet (a folder).")],
    as_json: Json = False,
) -> None:
    """Write a month to a file; it stays in the database until it is dropped."""
    from oarpy.client.past import past_months

    with _database() as (connection, _):
        written_month = past_months.archive(connection, past_months.parse_month(month), to)
    written = json_text({"month": month, "jobs": written_month.jobs, "archive": written_month.archive})
    write(written if as_json else f"{written_month.jobs} jobs of {month} are in {written_month.archive}\n")


@app.command()
def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What oarpy history archive wrote.")],
    as_json: Json = False,
) -> None:
    """Bring a month back from its archive; what is there already stays as it is."""
    from oarpy.client.past import past_months

    with _database() as (connection, _):
        restored = past_months.restore(connection, file)
    month = f"{restored.month:%Y-%m}"
    if as_json:
        write(json_text({"month": month, "jobs": restored.jobs, "already": restored.already}))
        return
    write(f"{month} is there already\n" if restored.already else f"{restored.jobs} jobs of {month} are back\n")


@app.command()
def drop(
    month: Month,
    unarchived: Annotated[bool, typer.Option("--yes", help="Drop it even if no archive has all of it.")] = False,
    as_json: Json = False,
) -> None:
    """Drop a month: its jobs are gone at once, but for its archive. Sums of accounting stay."""
    from oarpy.client.past import past_months

    with _database() as (connection, _):
        dropped = past_months.drop(connection, past_months.parse_month(month), unarchived=unarchived)
    freed = past_months.size_text(dropped.bytes)
    shown = json_text({"month": month, "jobs": dropped.jobs, "bytes": dropped.bytes})
    write(shown if as_json else f"{dropped.jobs} jobs of {month} dropped, {freed} freed\n")


@contextmanager
def _database() -> Iterator[tuple[Connection, Configuration]]:
    """Connect as the user who runs the command. Files are read and written as that user, too."""
    from oarpy.configuration import load
    from oarpy.store.database import connect, database_dsn, reachable

    configuration = load()
    with reachable(), connect(database_dsn(configuration), "history") as connection:
        yield connection, configuration
