"""What a campaign leaves for whoever looks for the cause of what went wrong."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import psycopg
from psycopg import sql

_TABLES = ("jobs", "job_state_logs", "event_logs", "assigned_resources", "resources", "kill_requests", "nodes")


def keep_tables(dsn: str, folder: Path) -> None:
    """Write the tables that tell what became of the jobs into ``folder``, as CSV."""
    folder.mkdir(parents=True, exist_ok=True)
    with psycopg.connect(dsn) as connection, connection.cursor() as cursor:
        for table in _TABLES:
            query = sql.SQL("COPY {} TO STDOUT (FORMAT csv, HEADER)").format(sql.Identifier(table))
            with (folder / f"{table}.csv").open("wb") as file, cursor.copy(query) as copy:
                for part in copy:
                    file.write(part)


def keep_files(paths: Iterable[Path], folder: Path, base: Path) -> None:
    """Copy files and folders (whatever of them can be read) into ``folder``, under their names below ``base``."""
    for path in paths:
        target = folder / path.relative_to(base)
        target.parent.mkdir(parents=True, exist_ok=True)
        with suppress(OSError, shutil.Error):
            if path.is_dir():
                shutil.copytree(path, target, ignore=shutil.ignore_patterns("ballast"), dirs_exist_ok=True)
            else:
                shutil.copy(path, target)
